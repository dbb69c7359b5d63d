# SPDX-License-Identifier: Apache-2.0
"""The documentation as a site, built by Sphinx from the pages that scripts/build_docs copies."""

project = "cachepilot"
copyright = "the cachepilot authors"
author = "the cachepilot authors"
extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["docs/site"]
myst_enable_extensions = ["attrs_inline"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "cachepilot"
html_show_sourcelink = False
html_copy_source = False
templates_path: list[str] = []
