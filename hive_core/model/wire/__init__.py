"""What is kept and sent: records, masks over secrets, rates and windows."""
