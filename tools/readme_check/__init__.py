"""The parts of tools/readme-check: its pages, what they name, and their commands."""
