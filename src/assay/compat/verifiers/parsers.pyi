from assay.compat.verifiers.lenient_parsers import MaybeThinkParser as MaybeThinkParser
from assay.compat.verifiers.lenient_parsers import Parser as Parser
from assay.compat.verifiers.lenient_parsers import ThinkParser as ThinkParser
from assay.compat.verifiers.lenient_parsers import XMLParser as XMLParser
