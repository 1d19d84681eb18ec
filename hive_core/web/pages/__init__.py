"""The pages: each function answers one address; it reads through the visit, draws by a template."""
