"""An agent in Python that scores a text by how easy it is to read. The package baton, which needs nothing else,
can also be installed: pip install ./plugins/process/sdk/python"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "plugins" / "process" / "sdk" / "python"))
import baton  # noqa: E402


def score(run):
    """Scores how easy a text is to read, from 0 to 100."""
    words = re.findall(r"\w+", run.query)
    sentences = max(1, len(re.findall(r"[.!?]+", run.query)))
    if not words:
        raise baton.Error("There is no text to score.", "no_text")
    run.progress(0.5, "counted")
    long = run.tool("calculator", {"expression": "%d / %d" % (sum(len(w) for w in words), len(words))})
    points = max(0, min(100, round(120 - 10 * float(long["result_summary"]) - len(words) / sentences)))
    run.text("%d words in %d sentences: " % (len(words), sentences))
    run.text("%d of 100." % points)
    return {"answer": "%d of 100" % points, "key_points": ["%s letters a word" % long["result_summary"]]}


baton.serve(score)
