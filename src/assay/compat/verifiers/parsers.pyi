from assay import MaybeThinkParser as MaybeThinkParser
from assay import Parser as Parser
from assay import ThinkParser as ThinkParser
from assay import XMLParser as XMLParser
