"""What lies beside data and is none: readmes, licences, papers, scripts, names of labels, what systems leave behind.

Where a folder is read, such files are passed over, and `fedrel data check` lists them. A file that is named itself is
read whatever it is called. Papers and web pages lie beside data, but where a folder is one of text, they are text.
"""

import re

# README, README.txt, readme-first.txt, LICENSE.txt; a text called "License Agreement.txt" is data
_ABOUT = re.compile(r"(?:read[-_ ]?me|licen[cs]e|copying|changelog|citation)(?:[-_.].*)?")
# rel2id.json, label2id.txt, pid2name.json, id2rel.json; conll04_types.json, rel_info.json, label_list.txt
_NAMES = re.compile(
    r"[a-z_]+2(?:id|ids|idx|index|name|names|text|label|labels|desc\w*)|(?:id|idx)2[a-z_]+"
    r"|(?:.*[-_])?(?:types|labels?[-_]?(?:list|map|names)|rel(?:ation)?s?[-_](?:info|list|names|types|map))|vocab"
)
_LISTS = frozenset(("relations.txt", "labels.txt", "labels.json", "classes.txt", "classes.json"))
_FOR_PEOPLE = {
    "md",
    "rst",
    "pdf",
    "ps",
    "doc",
    "docx",
    "odt",
    "rtf",
    "ppt",
    "pptx",
    "xls",
    "xlsx",
    "htm",
    "html",
    "tex",
}
_PROGRAMS = {"py", "pyc", "ipynb", "pl", "pm", "sh", "bat", "r", "rb", "js", "java", "jar", "class", "c", "cpp", "exe"}
_SETTINGS = {
    "conf",
    "cfg",
    "ini",
    "toml",
    "yaml",
    "yml",
    "dtd",
    "xsd",
    "xsl",
    "log",
    "bib",
    "css",
    "md5",
    "sha1",
    "sha256",
}
_PICTURES = {"png", "jpg", "jpeg", "gif", "svg"}
_EXTENSIONS = _FOR_PEOPLE | _PROGRAMS | _SETTINGS | _PICTURES
_LEFT_BEHIND = frozenset(("thumbs.db", "desktop.ini", "__macosx", ".ds_store"))


def is_left_behind(name: str) -> bool:
    """Whether macOS or Windows makes files or folders of this name wherever it goes."""
    return name.lower() in _LEFT_BEHIND or name.startswith("._")


def is_hidden(name: str) -> bool:
    """Whether the name of a file or folder says that it is not for people to see: .git, ._a.txt, __MACOSX."""
    return name.startswith(".") or is_left_behind(name)


def is_about_data(name: str) -> bool:
    """Whether the name of a file says that it tells about data: README, LICENSE.txt, rel2id.json."""
    low = name.lower()
    stem, _, suffix = low.rpartition(".")
    if _ABOUT.fullmatch(low) or low in _LISTS:
        return True
    return suffix in ("json", "txt", "tsv", "csv") and _NAMES.fullmatch(stem) is not None


def is_no_data(name: str) -> bool:
    """Whether the name of a file says that it holds no data."""
    stem, _, suffix = name.lower().rpartition(".")
    return is_hidden(name) or is_about_data(name) or (bool(stem) and suffix in _EXTENSIONS)
