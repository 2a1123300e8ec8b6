"""The verdict cache: what a judge answered once is not asked, or paid for, again."""

from assay.cache.store import (
    ALL,
    CachedVerdict,
    CacheStats,
    Item,
    Selection,
    Store,
    VerdictKey,
    default_place,
    open_store,
    text_hash,
)
from assay.cache.verdict_cache import VerdictCache, export_lines, import_lines

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
