"""`docs/reference/models-toml.md`, generated from the model of the file."""

from __future__ import annotations

from hive_core.model.config.models import ModelsFile
from hive_core.surfaces.settings import field_table, subtable_type, table_type

_HEAD = """\
# models.toml

Generated from the model by `python -m hive_core.surfaces`; do not edit.

`/etc/hive/models.toml` lists the models that agents may call, by alias, and the services that run
them. hived and hive-model read the file. An absent file, or one without providers and models, means
the embedded model: one provider `small` of kind `gguf`, and the alias `hive-small`, which is then
the model of all agents.

The file has no secrets: `key` is the name of a file in `/etc/hive/keys`. An
unknown key or an invalid value is refused with its name; the running services then keep what they
had.

```toml
default = "sonnet"

[providers.anthropic]
wire = "messages"
base_url = "https://api.anthropic.com/v1"
key = "anthropic"

[models.sonnet]
provider = "anthropic"
name = "claude-sonnet-4-5"
context = 200_000
max_output = 32_000
```
"""


def models_page() -> str:
    """The whole page: the keys at the top of the file, then a section for each table."""
    fields = ModelsFile.model_fields
    plain = {n: f for n, f in fields.items() if not (table_type(f) or subtable_type(f))}
    parts = [_HEAD, *field_table(plain)]
    for name, field in fields.items():
        if model := table_type(field) or subtable_type(field):
            heading = f"{name}.NAME" if subtable_type(field) else name
            heading = heading.replace("models.NAME", "models.ALIAS")
            about = " ".join((model.__doc__ or "").split())
            parts += [f"## [{heading}]\n", about + "\n", *field_table(model.model_fields)]
    return "\n".join(parts)
