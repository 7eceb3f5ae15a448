"""Print docs/openapi.json: `python -m elmo_serve.http.print_openapi > docs/openapi.json`."""

import json
import sys

from elmo_serve.http.app import create_app
from elmo_serve.http.wiring import assemble
from elmo_serve.settings import Settings

if __name__ == "__main__":
    json.dump(create_app(assemble(Settings())).openapi(), sys.stdout, indent=2, ensure_ascii=False)
    print()
