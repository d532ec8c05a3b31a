"""Reads the headers of the C ABI: macros, types, structs and functions, each with its comment."""
import dataclasses
import re

COMMENT = r"/\*.*?\*/"
TRAILING = rf"(?:[ \t]*(?P<trailing>{COMMENT}))?"
ITEMS = re.compile(
    rf"(?P<blank>\n[ \t]*\n)|(?P<comment>{COMMENT})"
    rf"|\#define[ \t]+(?P<macro>\w+)(?P<args>\(\w+\))?(?P<value>(?:\\\n|(?!/\*).)*?){TRAILING}(?=\n)"
    rf"|typedef struct (?P<struct>\w+) \{{(?P<body>.*?)\n\}} (?P=struct);"
    rf"|(?P<type>typedef [^;{{]*;)(?:[ \t]*(?P<type_trailing>{COMMENT}))?"
    rf"|(?P<function>BP_EXPORT [^;]*;)",
    re.S,
)
MEMBERS = re.compile(
    rf"(?P<blank>\n[ \t]*\n)|(?P<comment>{COMMENT})|(?P<declaration>\w[^;]*;){TRAILING}", re.S)
GUARDS = re.compile(r"BACKPLANE_\w+_H_")
THREADS = re.compile(r"\[(?:any-thread|control|step)\]|\bthread", re.I)


@dataclasses.dataclass
class Item:
    kind: str  # macro, struct, type, function, note
    name: str
    text: str  # value of a macro, declaration of the others
    comment: str
    own: bool  # the comment is not that of a group
    members: list = dataclasses.field(default_factory=list)


def words(comment):
    """What a comment says; paragraphs and lists keep their lines."""
    lines = comment[2:-2].splitlines()
    return "\n".join(re.sub(r"^\s*\* ?|^\s+", "", line).rstrip() for line in lines).strip()


def declared_name(declaration):
    pointer = re.search(r"\(\*(\w+)\)", declaration)
    if pointer:
        return pointer.group(1)
    return re.findall(r"(\w+)(?:\[\w*\])?;", declaration)[-1]


def members_of(body):
    """Items; `uint32_t a, b;` is two."""
    lead, leads_own = "", True
    for match in MEMBERS.finditer(body):
        if match["blank"]:
            lead = ""
        elif match["comment"]:
            lead, leads_own = words(match["comment"]), True
        else:
            text = " ".join(match["declaration"].split())
            trailing = words(match["trailing"]) if match["trailing"] else ""
            # A tag behind a function adds to what stands before it.
            comment = f"{lead} {trailing}".strip() if "(*" in text and leads_own else trailing or lead
            own = bool(trailing) or leads_own
            kind, _, names = text.rstrip(";").rpartition(" ")
            if "(*" in text or "," not in text:
                yield Item("member", declared_name(text), text, comment, own)
            else:
                kind, names = re.match(r"(\w+) (.*);", text).groups()
                for name in names.split(", "):
                    yield Item("member", name, f"{kind} {name};", comment, own)
            leads_own = False


def items_of(header_text):
    """(conventions, items) of a header, in order."""
    end = header_text.index("*/") + 2
    items, lead, lead_own = [], "", True
    for match in ITEMS.finditer(header_text, end):
        if match["blank"]:
            if lead and lead_own:
                items.append(Item("note", "", "", lead, True))
            lead = ""
            continue
        if match["comment"]:
            lead, lead_own = words(match["comment"]), True
            continue
        kind = next(k for k in ("macro", "struct", "type", "function") if match[k])
        name = match[kind]
        if kind == "macro" and (GUARDS.fullmatch(name) or not match["value"].strip()):
            continue
        if kind == "type":
            name = declared_name(match["type"])
        if kind == "function":
            name = re.search(r"(\w+)\(", match["function"]).group(1)
        text = match["value"].strip() if kind == "macro" else match.group(0).strip()
        if kind == "type":
            text = match["type"]
        behind = match["trailing"] or match["type_trailing"]
        trailing = words(behind) if behind else ""
        item = Item(kind, name + (match["args"] or ""), text, trailing or lead, bool(trailing) or lead_own)
        if kind == "struct":
            item.members = list(members_of(match["body"]))
        items.append(item)
        lead_own = False
    return words(header_text[:end]), items
