"""Gates on the kind of a sentence, and on questions about runs and about what the knowledge base holds."""

import re
from collections.abc import Iterable

from grafico.agent.grounding import is_smiles, level_in, molecule_in, stands_in, tasks_in
from grafico.agent.quantities import VERB as CONVERT
from grafico.agent.quantities import quantities_in, unit_of
from grafico.agent.wanted import Knowing, Looking, Sentence
from grafico.gates import Decision, Gate, Ruling

__all__ = ["kind_gates", "knowing_gates", "looking_gates", "runs_in"]

NAME = r"[A-Za-z0-9][A-Za-z0-9_.+-]*[A-Za-z0-9]"
VERB = r"(?:^|[.?!:;]\s|\b(?:please|to|you|i|we|then|and|us|just|now|should|would|could|can|must|never|not)\s+)$"
"""What stands before `run` where that is a verb."""
OF_RUNS = re.compile(
    rf"\b(?:runs?|jobs?)\s+(?:(?:called|named)\s+)?(?:[\"'`“‘](?P<quoted>{NAME})[\"'`”’]|(?P<bare>{NAME}))",
    re.IGNORECASE,
)
BEFORE_RUN = re.compile(rf"(?<![\w-])(?P<name>{NAME})\s+(?:run|job)\b", re.IGNORECASE)
PART = re.compile(r"\b(?:lanes?|conformers?|members?|environments?)\s+$", re.IGNORECASE)
NUMBERED = re.compile(r"(?<![\w./-])[A-Za-z][A-Za-z0-9_.+]*(?:[-_.][A-Za-z0-9_+]+)*[-_]\d+(?:-[0-9a-f]+)*(?![\w-])")
"""A name with a number at its end, such as acetone-3 or tiny-20260101-120000-9d6677."""
MARKED = re.compile(r"[-_.\d]")
ARTICLE = re.compile(
    r"\b(?:the|my|our|that|this|a|an|last|latest|newest|previous|first|second|any|every|each|which)\s+$"
)
NO_NAMES = frozenset((
    "a", "again", "all", "an", "and", "any", "are", "as", "at", "because", "been", "before", "by", "called",
    "can", "completed", "crashed", "did", "die", "died", "do", "does", "doing", "done", "end", "ended", "ever",
    "fail", "failed", "failing", "fails", "finish", "finished", "finishes", "finishing", "for", "from", "get",
    "gets", "getting", "go", "goes", "going", "got", "had", "has", "have", "how", "i", "if", "in", "is", "it",
    "its", "just", "lane", "lanes", "last", "like", "long", "me", "my", "named", "never", "no", "not", "now",
    "of", "off", "on", "or", "out", "over", "please", "run", "running", "runs", "so", "some", "stand",
    "standing", "stands", "status", "still", "stop", "stopped", "take", "taking", "that", "the", "then",
    "there", "these", "this", "time", "to", "today", "took", "until", "up", "was", "we", "well", "went", "were",
    "what", "when", "where", "which", "while", "who", "why", "will", "with", "without", "yesterday", "yet",
    "you",
))  # fmt: skip
"""Words that follow `run` and name none."""
LOOKS = re.compile(
    r"\b(?:fail\w*|stands?|status|state of|stor(?:y|ies)|finish\w*|running|done|wrong|died?|crash\w*|progress|stopped|end(?:ed|s)?|going on|open|results?|"
    r"why|how|what happened|happened (?:in|to|with|during)|explain|show|tell|look at|inspect|is|did|was|has|which lanes?)\b"
)
ABOUT_LAST = re.compile(
    r"\b(?:why|what|did|how|is|show|tell|has|was)\b.*\b(?:last|latest|newest|my|that|the) (?:run|job|lane)s?\b"
)
STORIES = re.compile(r"\b(?:stor(?:y|ies)|history|step by step|happened|explain|everything that|routes?)\b")
FAILURES = re.compile(r"\b(?:fail\w*|wrong|errors?|crash\w*|died?|broke|why did)\b")

BASE = re.compile(r"\bknowledge[- ](?:base|graph)\b|\bknowledge\b|\bdatabase\b|\bearlier results\b")
KNOWN = re.compile(
    r"\b(?:already|ever|yet|so far|previous(?:ly)?|before|earlier|stored)\b|\bhave we (?:computed|calculated|done|got)\b|"
    r"\bhas (?:anybody|anyone|somebody|someone) \b|\bdo we (?:\w+ )?(?:have|know)\b|\b(?:are|is) there (?:any|a|already|some)\b|"
    r"\bwhat do we (?:\w+ )?know\b|\b(?:is|are) known\b|\b(?:list|show)(?: me)? (?:all|every)\b"
)
ABOUT_WORK = re.compile(
    r"\b(?:comput\w+|calculat\w+|optimi[sz]\w+|stud(?:y|ied)|simulat\w+|done|results?|data|spectr(?:um|a)|molecules?|compounds?|runs?|"
    r"energ(?:y|ies)|frequenc(?:y|ies)|excitations?|excited states|charges|conformers?|levels?|anything|known?)\b"
)
ASKS = re.compile(r"\?|^\W*(?:(?:please|can you|could you|tell me|show me|let me know)\W+)*"
                  r"(?:which|what|have|has|had|do|does|did|was|were|is|are|list|show|tell|find|search|look|how many|any|who|when|if|whether)\b")  # fmt: skip
ORDERS = re.compile(
    r"^\W*(?:(?:please|now|then|can you|could you|i want you to|i would like you to|i'd like you to)\W+)*"
    r"(?:compute|calculate|optimi[sz]e|relax|run|determine|perform|predict|simulate|do (?:a|an|the)\b|get me|give me)\b"
)
NOUNS = (
    ("molecules", r"\b(?:molecules?|compounds?|substances?|species)\b"),
    (
        "calculations",
        r"\b(?:calculations|results?|energ(?:y|ies)|frequenc(?:y|ies)|charges|optimi[sz]ations?|levels? of theory)\b",
    ),
    ("spectra", r"\b(?:spectra|spectrum)\b"),
    ("runs", r"\b(?:runs|jobs|run (?:of|on|for|with))\b"),
)


def runs_in(sentence: str) -> list[str]:
    """Return the runs that a sentence names, by the word beside `run` or by a number at the end of a name."""
    found: list[str] = []
    for match in OF_RUNS.finditer(sentence):
        before, bare = sentence[: match.start()].lower(), match["bare"]
        if match["quoted"]:
            found.append(match["quoted"])
        elif (
            not re.search(VERB, before)
            and bare.lower() not in NO_NAMES
            and (MARKED.search(bare) or not ARTICLE.search(before))
        ):
            # "the run acetone" may go on in any way; "run acetone" and "the run acetone-3" name one.
            found.append(bare)
    found += [
        name
        for match in BEFORE_RUN.finditer(sentence)
        if (re.search(r"[-_]", name := match["name"]) or _molecules(name))
        and not level_in(name.lower())
        and not tasks_in(name.lower())
    ]
    if LOOKS.search(sentence.lower()):
        found += [
            name
            for match in NUMBERED.finditer(sentence)
            if not level_in((name := match.group()).lower())
            and not unit_of(name)
            # A lane's name is none of a run.
            and not PART.search(sentence[: match.start()])
        ]
    whole = dict.fromkeys(found)
    # "lane 3 of run x-1 of job x-1" names it once; a part of a longer name is none.
    return [name for name in whole if not any(name != other and name in other for other in whole)]


def kind_gates(sentence: str) -> tuple[Gate[Sentence], ...]:
    """Return the gates on what kind of thing a sentence asks for."""
    low = sentence.lower()
    tasks = tasks_in(low)
    told = [
        kind
        for kind, found in (
            ("convert_units", _converts(sentence, tasks)),
            ("inspect_run", _looks(sentence)),
            ("ask_knowledge", _asks_knowledge(low, tasks)),
        )
        if found
    ]
    if "inspect_run" in told and "ask_knowledge" in told:
        # "What has my run computed so far?" is about that run; the knowledge base is asked where it is named.
        told.remove("inspect_run" if BASE.search(low) else "ask_knowledge")

    def check(value: Sentence) -> Decision[Sentence]:
        name = "kind"
        kinds = list(told)
        if not kinds and value.kind != "compute" and tasks and value.kind != "ask_knowledge":
            kinds = ["compute"]
        if not kinds and value.kind == "compute" and not tasks:
            return Decision(Ruling.FLAG, value, name, "the sentence names nothing that could be computed")
        if len(kinds) == 1 and kinds[0] != value.kind:
            fixed = Sentence.model_validate({"kind": kinds[0]})
            return Decision(Ruling.CORRECT, fixed, name, f"the sentence's words mean {kinds[0]}")
        return Decision(Ruling.ACCEPT, value, name)

    return (Gate("kind", check),)


def _converts(sentence: str, tasks: list[str]) -> bool:
    said = quantities_in(sentence)
    if not said.converts:
        return bool(said.given and CONVERT.match(sentence)) and not _molecules(sentence)
    if not tasks and any(unit != "K" for _, unit in said.given):
        return True
    # "the energy of water at 300 K in kJ/mol" names a temperature: with such words the link must be plain.
    return said.linked and not level_in(sentence.lower()) and not _molecules(sentence)


def _molecules(sentence: str) -> list[str]:
    from grafico.chemistry.names import ALIASES, NAMES

    names = molecule_in(sentence, sorted([*NAMES, *ALIASES], key=len, reverse=True))
    return names or [word for word in (w.strip(".,;:?!\"'`") for w in sentence.split()) if is_smiles(word)]


def _looks(sentence: str) -> bool:
    low = sentence.lower()
    if ORDERS.search(low):
        return False
    noun = any(not re.search(VERB, low[: m.start()]) for m in re.finditer(r"\b(?:run|job|lane)s?\b", low))
    if noun and (ABOUT_LAST.search(low) or re.search(r"\b(?:run|job|lane)s?\b.*" + LOOKS.pattern, low)):
        return True
    return bool(runs_in(sentence) and LOOKS.search(low))


def _asks_knowledge(low: str, tasks: list[str]) -> bool:
    if BASE.search(low):
        return True
    about = tasks or ABOUT_WORK.search(low)
    return bool(about and KNOWN.search(low) and ASKS.search(low)) and not ORDERS.search(low)


def looking_gates(sentence: str) -> tuple[Gate[Looking], ...]:
    """Return the gates on a question about a run: the run is the one that the sentence names, else the last."""
    low, named = sentence.lower(), runs_in(sentence)

    def run(value: Looking) -> Decision[Looking]:
        name = "run"
        if value.run in named:
            return Decision(Ruling.ACCEPT, value, name)
        if len(named) > 1:
            return Decision(Ruling.REFUSE, value, name, f"one run at a time, please: {' or '.join(named)}")
        if named:
            fixed = value.model_copy(update={"run": named[0]})
            return Decision(Ruling.CORRECT, fixed, name, f"the sentence names {named[0]}")
        words = re.findall(NAME, low)
        if value.run != "last" and (value.run.lower() not in words or value.run.lower() in NO_NAMES | {"job"}):
            return Decision(Ruling.CORRECT, value.model_copy(update={"run": "last"}), name, "no run is named: the last")
        return Decision(Ruling.ACCEPT, value, name)

    def about(value: Looking) -> Decision[Looking]:
        # What failed is told of every run; the story is told only where it is asked for.
        told = "failures" if FAILURES.search(low) else "story" if STORIES.search(low) else None
        if told is None or told == value.about:
            return Decision(Ruling.ACCEPT, value, "about")
        fixed = value.model_copy(update={"about": told})
        return Decision(Ruling.CORRECT, fixed, "about", f"the sentence's words mean {told}")

    return (Gate("run", run), Gate("about", about))


def knowing_gates(sentence: str, molecules: Iterable[str]) -> tuple[Gate[Knowing], ...]:
    """Return the gates on a question to the knowledge base: what is listed, and of which molecule.

    Parameters
    ----------
    sentence
        What the user wrote.
    molecules
        Names that grafico knows.
    """
    low = sentence.lower()
    places = [(match.start(), kind) for kind, pattern in NOUNS if (match := re.search(pattern, low))]
    said = min(places)[1] if places else None
    names = molecule_in(sentence, sorted(molecules, key=len, reverse=True))
    smiles = [word for word in (w.strip(".,;:?!\"'`") for w in sentence.split()) if is_smiles(word)]
    which = smiles or names

    def about(value: Knowing) -> Decision[Knowing]:
        if said is None or said == value.about:
            return Decision(Ruling.ACCEPT, value, "about")
        fixed = value.model_copy(update={"about": said})
        return Decision(Ruling.CORRECT, fixed, "about", f"the sentence's words mean {said}")

    def molecule(value: Knowing) -> Decision[Knowing]:
        name = "molecule"
        if len(which) == 1 and (value.molecule or "").lower() != which[0].lower():
            fixed = value.model_copy(update={"molecule": which[0]})
            return Decision(Ruling.CORRECT, fixed, name, f"the sentence says {which[0]}")
        if value.molecule and not stands_in(value.molecule, sentence):
            fixed = value.model_copy(update={"molecule": None})
            return Decision(Ruling.CORRECT, fixed, name, f"the sentence does not say {value.molecule!r}")
        return Decision(Ruling.ACCEPT, value, name)

    return (Gate("about", about), Gate("molecule", molecule))
