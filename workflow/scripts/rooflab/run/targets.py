"""Which files a run shall make: the paid ones of its sessions, and the free ones of every session that lies in results/."""

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

from rooflab.cost.rates import pace_of
from rooflab.machine.detect import slug
from rooflab.plan import measurements, operators, session
from rooflab.plan.points import Point
from rooflab.record import handover, names, publish, records
from rooflab.record.say import say
from rooflab.run.asked import Asked
from rooflab.run.places import Places

FIGURES = ["roofline.png", "roofline.svg", "roofline-dark.svg"]
HASHED = ["device_query.json", "peak_flops.json", "roofline.json", *FIGURES, "interpretation.md", "figures.csv"]
FREE = [*HASHED, "manifest.json", "report.html"]
PLANS = Path(".snakemake")
IN_TURNS = ("gpu", "decode")


class Targets:
    """The input functions of the rules. `wc` is what Snakemake hands them: an object with `session`, `key` and so on."""

    def __init__(self, asked: Asked, places: Places, config: dict[str, Any], results: Path):
        self.asked, self.places, self.config, self.results = asked, places, config, results
        self.points: dict[str, Point] = {point.file(): point for point in measurements.session_points(config, True)}

    # --- sessions

    def sessions(self) -> list[str]:
        """Every session in results/, and this machine's when this run measures."""
        found = session.names(self.results)
        return sorted(found | set(self.places.sessions) if self.asked.measures else found)

    def is_measured(self, name: str) -> bool:
        """Whether this run measures that session."""
        return self.asked.measures and name in self.places.sessions

    def has_gpu(self, name: str) -> bool:
        return self.places.has_gpu if self.is_measured(name) else (self.results / name / "gpu").is_dir()

    # --- paid files

    def measured_files(self) -> list[str]:
        """The paid files of this run's sessions."""
        return [file for each in self.places.sessions for file in self._session_files(each)]

    @cache
    def _session_files(self, name: str) -> list[str]:
        """The paid files of a session this run measures: what exists, and the next attempt of what does not."""
        files = session.planned_files(self.results / name, self._planned(name))
        if self.asked.runs and (closed := session.closed_folder(files)):
            sys.exit(
                f"{closed}: cannot be written, and measurements are to go there: make it writable; nothing was measured"
            )
        if wrong := session.unusable_weights(self.config["minigpt"]["weights"], files, self.points.values()):
            sys.exit(f"config: minigpt.weights: {wrong}; nothing was measured")
        return [str(path) for path in files]

    def records_of(self, wc: Any) -> list[str]:
        """The records of a session: the planned ones when this run measures it, else every one that exists."""
        if self.is_measured(wc.session):
            return self._session_files(wc.session)
        return [str(path) for path in session.record_files(self.results / wc.session)]

    def spec_of(self, wc: Any, output: Any) -> str:
        """What a paid file shall hold, as the text its key digests."""
        file = "/".join(Path(output[0]).parts[2:])
        first = names.first_attempt(file)
        if first not in self.points:
            self._planned(wc.session)
        if first in self.points:
            return session.spec_text(self.points[first].spec)
        if Path(output[0]).exists():
            return ""  # measured under another config: it lies there to be drawn, and is not measured again
        sys.exit(f"{output[0]}: no measurement of this config has that name: it ends with the digest of its parameters")

    def beside_of(self, wc: Any, output: Any) -> str:
        """What a program measures in turns with a paid file, as JSON: the decode steps of a GPU that differ from it in
        nothing but their length and are not there yet. Programs of one host differ by more than neighbouring lengths do."""
        file = names.first_attempt("/".join(Path(output[0]).parts[2:]))
        own = self.points.get(file)
        if own is None or (own.side, own.stage) != IN_TURNS or names.format_of_lab_step(own.name) is None:
            return "[]"
        alike = [each for each in self.points.values() if each.file() != file and _but_length(each) == _but_length(own)]
        outs = session.planned_files(self.results / wc.session, alike)
        given = [
            {"spec": each.spec, "out": str(out)} for each, out in zip(alike, outs, strict=True) if not out.exists()
        ]
        return json.dumps(given)

    def _planned(self, name: str) -> list[Point]:
        """The plan of a session: that of its device. What it holds becomes known to whoever is handed a file's name."""
        device = self.places.device_of(name) if self.is_measured(name) else session.device_of(self.results / name)
        found = self._points_of(slug(device), self.has_gpu(name))
        self.points.update({point.file(): point for point in found})
        return found

    @cache
    def _points_of(self, device: str, with_gpu: bool) -> list[Point]:
        return measurements.session_points(self.config, with_gpu, pace_of(device))

    def planned_of(self, wc: Any) -> str:
        """A file with the plan: what is planned and not there is a hole of the picture."""
        return self._plan_file(wc.session)

    @cache
    def _plan_file(self, name: str) -> str:
        """The plan as JSON, in a file named by its content: another plan is another parameter of the free rules."""
        plan = [
            {"file": point.file(), "stage": point.stage, "side": point.side, "name": point.name}
            for point in self._planned(name)
        ]
        return self._noted("plan", plan)

    def _noted(self, what: str, content: list[dict[str, Any]]) -> str:
        """The content in a file named by it."""
        path = PLANS / f"rooflab.{what}.{records.digest(content)[:8]}.json"
        if not path.exists():
            publish.write_json(path, content)
        return str(path)

    # --- free files

    def figures(self) -> list[str]:
        """The figures of every session."""
        return self._free_files(FIGURES) + self.alarm()

    def free(self) -> list[str]:
        """Figures, prose, manifest and page of every session."""
        return self._free_files(FREE) + self.alarm()

    def everything(self) -> list[str]:
        """This run's measurements, and the free files of every session."""
        return self.measured_files() + self.free()

    def _free_files(self, wanted: list[str]) -> list[str]:
        return [
            str(self.results / each / name)
            for each in self.sessions()
            if not self.untrusted(each)
            for name in [*wanted, *self._model_files(each, wanted)]
        ]

    def _model_files(self, name: str, wanted: list[str]) -> list[str]:
        """The chart, and with the prose the page, of each model that a session's records speak of, or hold the sizes of."""
        kinds = ["png", "svg", "md"] if "interpretation.md" in wanted else ["png", "svg"]
        return [f"model_{each}.{kind}" for each in self._models(name) for kind in kinds]

    def model_files_of(self, wc: Any) -> list[str]:
        """The models' charts and pages of a session."""
        return [str(self.results / wc.session / name) for name in self._model_files(wc.session, FREE)]

    def _models(self, name: str) -> list[str]:
        """The models of a session: by the names of its records, and those of the config that it measured under whatever
        name, or is about to."""
        if self.is_measured(name):
            files = self._session_files(name)
            held = [each["name"] for each in self.config["operators"] if self.places.has_gpu]
        else:
            files = [str(path) for path in session.record_files(self.results / name)]
            held = session.held_models(self.results / name, self.config)
        return sorted({*operators.names(files), *held})

    # --- records that must not be trusted stop their own session; the others are drawn first, then the run fails

    @cache  # one object a run
    def untrusted(self, name: str) -> list[str]:
        """What is wrong with the records of a session, one line each."""
        return session.distrusted(self.results / name)

    def alarm(self) -> list[str]:
        """The target that always fails, where a session holds records that must not be trusted."""
        return [str(self.results / "untrusted")] if self._errors() else []

    @cache
    def _errors(self) -> str:
        """The errors of all sessions, handed to the rule that fails for them; a dry-run, which fails for none, tells them."""
        told = "\n".join(line for each in self.sessions() for line in self.untrusted(each))
        handover.leave(handover.UNTRUSTED, told)
        if told and not self.asked.runs:
            say(told, sys.stderr)
        return told

    def before_alarm(self, wc: Any) -> list[str]:
        """Everything else that was asked for, so that the failure is the last thing that happens."""
        measured = self.measured_files() if self.asked.measures else []
        return measured + self._free_files(FIGURES if self.asked.targets == {"plot"} else FREE)

    # --- what the config tells the free programs

    def models_asked(self) -> list[str]:
        """A file with what the config wants to know of its models, none where it names none: data of the free model, so that
        a session of another config, in a fresh clone too, is derived again."""
        asked = operators.asked(self.config)
        return [self._noted("models", asked)] if asked else []

    def gpu_sessions_beside(self, wc: Any) -> list[str]:
        """The other sessions of results/ that hold records of a GPU: a CPU's prose names them."""
        return session.gpu_names(self.results, but=wc.session)

    def models_foretold(self) -> str:
        """What the config wants to know of models on cards that measured others."""
        return json.dumps(operators.foretold(self.config))

    def prices(self) -> str:
        """The prices by session, for the comparison; one price for all says nothing of a fleet."""
        price = self.config["price_usd_per_hour"]
        return json.dumps(price if isinstance(price, dict) else {})

    def prices_alone(self) -> str:
        """The same for the prediction, where one price is that of the session it can mean."""
        return json.dumps(session.prices(self.results, self.config))


def _but_length(point: Point) -> dict[str, Any]:
    return {name: value for name, value in point.spec.items() if name != "sequence"}
