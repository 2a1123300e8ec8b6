"""The verdict cache: what a judge answered once is not asked, or paid for, again."""

from assay.cache.cache import VerdictCache
from assay.cache.lines import export_lines, import_lines
from assay.cache.places import default_place, open_store
from assay.cache.store import ALL, CacheStats, Selection, Store
from assay.cache.verdict import CachedVerdict, Item, VerdictKey, text_hash

__all__ = [
    "ALL",
    "CacheStats",
    "CachedVerdict",
    "Item",
    "Selection",
    "Store",
    "VerdictCache",
    "VerdictKey",
    "default_place",
    "export_lines",
    "import_lines",
    "open_store",
    "text_hash",
]
