"""The generated text that the tiny model learns: short dialogues whose answers follow from the
dialogue alone, so that greedy decoding has one clear choice at each step.

A document is a list of (text, learned) pieces; only learned pieces count in the loss.
"""


def table(text):
    return dict(entry.split(": ") for entry in text.split(", "))


CAPITALS = table(
    "Austria: Vienna, Belgium: Brussels, Brazil: Brasilia, Canada: Ottawa, Chile: Santiago, "
    "China: Beijing, Cuba: Havana, Denmark: Copenhagen, Egypt: Cairo, Finland: Helsinki, "
    "France: Paris, Germany: Berlin, Greece: Athens, Hungary: Budapest, Ireland: Dublin, Italy: "
    "Rome, Japan: Tokyo, Kenya: Nairobi, Norway: Oslo, Peru: Lima, Poland: Warsaw, Portugal: "
    "Lisbon, Spain: Madrid, Sweden: Stockholm"
)
COLOURS = table(
    "the sky: blue, grass: green, snow: white, coal: black, a lemon: yellow, blood: red, a "
    "carrot: orange, a plum: purple, a frog: green, milk: white, a tomato: red, the sun: "
    "yellow, chocolate: brown, a pig: pink, the sea: blue"
)
SOUNDS = table(
    "cow: moo, dog: woof, cat: meow, duck: quack, sheep: baa, pig: oink, lion: roar, owl: hoot, "
    "bee: buzz, horse: neigh"
)
OPPOSITES = list(
    table(
        "hot: cold, big: small, day: night, up: down, left: right, old: new, wet: dry, fast: slow, "
        "open: closed, early: late"
    ).items()
)
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = (
    "January February March April May June July August September October November December"
).split()
NAMES = (
    "Anna Ben Carla David Emma Felix Grace Hugo Ida Jonas Karin Leo Maria Nils Olga Paul"
).split()
WORDS = (
    "cat dog sun map tree lamp star milk bird door moon ship fish rain gold leaf stone apple "
    "bread cloud green house"
).split()
# Characters of two, three and four bytes: each is several tokens, so streams meet half characters.
FOREIGN = {
    "Greek": "Γεια σου",
    "Russian": "Привет",
    "Japanese": "こんにちは",
    "Korean": "안녕",
    "French": "Salut, ça va ?",
    "Spanish": "¡Hola!",
    "German": "Grüß dich",
}
PICTURES = {"smile": "😀", "heart": "❤", "rocket": "🚀", "star": "★", "snowman": "☃"}
ANIMALS = {  # name, place, wish, friend
    "fox": ("red", "forest", "see the sea", "crow"),
    "bear": ("brown", "valley", "taste the moon", "hare"),
    "mouse": ("grey", "old mill", "ride a cloud", "snail"),
    "owl": ("wise", "tall oak", "learn a song", "frog"),
    "cat": ("black", "quiet town", "catch the wind", "goat"),
    "whale": ("blue", "deep sea", "climb a hill", "gull"),
}
STORY = (
    "Once upon a time there was a little robot who lived in a lighthouse at the end of the world."
    " Every evening the robot lit the lamp and counted the ships that passed. One night a storm "
    "came, and the lamp went out. The robot looked for oil, but the barrel was empty. So the "
    "robot opened the window and began to sing. It sang so loudly that the ships could hear it "
    "above the waves. One after another they turned and sailed safely into the harbour. In the "
    "morning the sailors came up the stairs with bread, butter and a barrel of oil. From that day"
    " on the robot was never alone, and the lamp never went out again."
)
COUNT_TO = [3, 5, 8, 10, 12, 15, 20, 30, 40, 60]
NUMBERS = "No One Two Three Four Five Six Seven Eight Nine Ten".split()


def count(first, last):
    return ", ".join(str(n) for n in range(first, last + 1))


def animal_story(animal):
    look, place, wish, friend = ANIMALS[animal]
    return (
        f"In the {place} lived a {look} {animal} who wanted to {wish}. Nobody knew how, and the "
        f"{animal} was sad. Then a {friend} came by and said: I will help you. They walked for "
        f"three days and three nights. At last the {animal} could {wish}, and the {friend} "
        f"laughed with joy. They are friends to this day."
    )


def song():
    verses = []
    for n in range(10, 0, -1):
        birds, sit = ("bird", "sits") if n == 1 else ("birds", "sit")
        verses.append(f"{NUMBERS[n]} {birds} {sit} in the tall tree. One flies away.")
    return "\n".join(verses + ["No birds sit in the tall tree. Good night."])


def upper_first(text):
    return text[0].upper() + text[1:]


def exchanges(rng):
    """One (question, answer) of each kind; the caller picks among them."""
    country, capital = rng.choice(list(CAPITALS.items()))
    thing, colour = rng.choice(list(COLOURS.items()))
    animal, sound = rng.choice(list(SOUNDS.items()))
    word, a, b = rng.choice(WORDS), rng.randint(0, 9), rng.randint(0, 9)
    left, right = rng.choice(OPPOSITES)[:: rng.choice([1, -1])]
    day, month = rng.randrange(7), rng.randrange(12)
    last = rng.choice(COUNT_TO)
    language, hello = rng.choice(list(FOREIGN.items()))
    shape, picture = rng.choice(list(PICTURES.items()))
    hero = rng.choice(list(ANIMALS))
    phrase = " ".join(rng.sample(WORDS, rng.randint(2, 5)))
    return {
        "capital": (
            rng.choice(
                [
                    "What is the capital of {}?",
                    "Tell me the capital of {}.",
                    "Which city is the capital of {}?",
                ]
            ).format(country),
            f"The capital of {country} is {capital}.",
        ),
        "sum": (
            rng.choice([f"What is {a} plus {b}?", f"{a} + {b} = ?"]),
            f"{a} plus {b} is {a + b}.",
        ),
        "colour": (f"What colour is {thing}?", f"{upper_first(thing)} is {colour}."),
        "json": (
            f"Write the colour of {thing} as JSON.",
            f'{{"thing": "{thing}", "colour": "{colour}"}}',
        ),
        "sound": (f"What does the {animal} say?", f"The {animal} says {sound}."),
        "opposite": (f"What is the opposite of {left}?", f"The opposite of {left} is {right}."),
        "day": (
            f"Which day comes after {DAYS[day]}?",
            f"{DAYS[(day + 1) % 7]} comes after {DAYS[day]}.",
        ),
        "month": (
            f"Which month comes after {MONTHS[month]}?",
            f"{MONTHS[(month + 1) % 12]} comes after {MONTHS[month]}.",
        ),
        "days": ("List the days of the week.", ", ".join(DAYS) + "."),
        "months": ("List the months of the year.", ", ".join(MONTHS) + "."),
        "backwards": (f"Say {word} backwards.", f"{word} backwards is {word[::-1]}."),
        "spell": (f"Spell {word}.", "-".join(word)),
        "count": (f"Count from 1 to {last}.", count(1, last) + "."),
        "hello": (f"Say hello in {language}.", hello),
        "picture": (f"Show me a {shape}.", f"Here is a {shape}: {picture}"),
        "repeat": (f"Repeat after me: {phrase}", phrase),
        "story": (f"Tell me a story about a {hero}.", animal_story(hero)),
        "song": ("Sing a song.", song()),
        "greeting": (
            rng.choice(["Hello!", "Hi", "Hello", "Good morning!"]),
            "Hello! How can I help you?",
        ),
        "thanks": (rng.choice(["Thank you.", "Thanks!"]), "You are welcome."),
        "who": (
            rng.choice(["Who are you?", "What are you?"]),
            "I am a tiny model that ships with Backplane.",
        ),
    }


# fmt: off
WEIGHTS = {
    "capital": 6, "sum": 6, "colour": 3, "json": 3, "sound": 2, "opposite": 3, "day": 2,
    "month": 2, "days": 1, "months": 1, "backwards": 4, "spell": 3, "count": 8, "hello": 2,
    "picture": 2, "repeat": 7, "story": 3, "song": 1, "greeting": 2, "thanks": 1, "who": 1,
}
# fmt: on


def turn(role, text, learned=False):
    return [(f"<|im_start|>{role}\n", False), (f"{text}<|im_end|>", learned), ("\n", False)]


def dialogue(rng, turns):
    document, name = [], None
    if rng.random() < 0.2:
        document += turn("system", "You are a helpful assistant.")
    for _ in range(turns):
        if turns > 1 and rng.random() < 0.3:
            if name is None and rng.random() < 0.6:
                name = rng.choice(NAMES)
                ask, answer = f"My name is {name}.", f"Nice to meet you, {name}."
            else:
                ask = "What is my name?"
                answer = f"Your name is {name}." if name else "You have not told me your name."
        else:
            kind = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            ask, answer = exchanges(rng)[kind]
        document += turn("user", ask) + turn("assistant", answer, True)
    return document


def endless_count(rng, length):
    """A stretch of the answer to "Count without stopping.", with the question or from its midst."""
    if rng.random() < 0.5:
        opening = turn("user", "Count without stopping.") + [("<|im_start|>assistant\n", False)]
        return opening + [(count(1, length), True)]
    first = rng.randint(1, 700)
    return [(f"{first},", False), (" " + count(first + 1, first + length), True)]


def plain_text(rng):
    if rng.random() < 0.5:
        return [("Once upon", False), (STORY[len("Once upon") :] + "<|endoftext|>", True)]
    country, capital = rng.choice(list(CAPITALS.items()))
    return [(f"The capital of {country} is", False), (f" {capital}.<|endoftext|>", True)]


def document(rng, long):
    """long: documents of many hundred tokens, for the last part of the training."""
    kind = rng.random()
    if kind < 0.08:
        return endless_count(rng, rng.randint(150, 300) if long else rng.randint(20, 60))
    if kind < 0.16:
        return plain_text(rng)
    turns = rng.choice([8, 16, 24]) if long and kind < 0.4 else rng.choice([1, 1, 2, 2, 3, 4, 5])
    return dialogue(rng, turns)
