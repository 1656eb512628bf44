"""Where a run measures: this machine, the cards of `gpus`, or the nodes of a cluster; and what that asks of Snakemake."""

import sys
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from rooflab.machine import cards, cluster, detect
from rooflab.record.say import say
from rooflab.run.asked import Asked

Resources = dict[str, Any]  # a number, or a function of the wildcards


class Places:
    """The sessions of a run and the devices they are measured on; drivers and Slurm are asked only when something measures."""

    def __init__(self, asked: Asked, config: dict[str, Any], results: Path):
        self.asked, self.config, self.results = asked, config, results

    @cached_property
    def machine(self) -> detect.Machine:
        """The device this run measures."""
        try:
            found = detect.chosen(self.config["device"], self.results)
        except detect.DetectionError as error:
            sys.exit(str(error))
        if not found.is_gpu and self.config["device"] == "auto" and (other := detect.not_measured()):
            say(other, sys.stderr)
        if found.uuid is not None:  # chosen once: its programs are shown this card alone
            cards.hand_over({self.config["session"] or found.slug: found.uuid}, at_once=False)
        return found

    @cached_property
    def cards(self) -> dict[str, str]:
        """The UUIDs of `gpus` by their session's name, handed to the jobs; none where the config does not name any."""
        if self.config["gpus"] is None:
            return {}
        if not self.asked.by_user and cards.handed():
            return cards.handed()
        try:
            found = cards.chosen(self.config["gpus"], self.config["device"], self.results)
        except detect.DetectionError as error:
            sys.exit(str(error))
        cards.hand_over(found, self.config["parallel_gpus"])
        if cards.at_once() > 1:
            self.asked.workflow.global_resources["paid"] = cards.at_once()
            for place in _slots():
                self.asked.workflow.global_resources[place] = 1
            say(cards.interference(len(found)), sys.stderr)
        return found

    @property
    def has_gpu(self) -> bool:
        return bool(self.cards) or self.machine.is_gpu

    @property
    def sessions(self) -> list[str]:
        """The sessions this run measures: one, one per card of `gpus`, or one per entry of `nodes`."""
        self._agree()
        named = list(self.config["nodes"] or self.cards) or [self.config["session"] or self.machine.slug]
        if not self.has_gpu:
            self._refuse_a_gpu_s_session(named)
        return named

    def _refuse_a_gpu_s_session(self, named: list[str]) -> None:
        """A session that holds a GPU's records would be drawn without them, and get this host's."""
        for each in (name for name in named if (self.results / name / "gpu").is_dir()):
            sys.exit(
                f"{self.results / each} holds measurements of a GPU, and this run measures a CPU alone: give it a session of its own "
                f"(--config session={each}-cpu), or draw what is there: snakemake --cores 1 report"
            )

    def device_of(self, session: str) -> str:
        """What a session of this run is measured on, named as the device's own session would be."""
        if session in self.cards:
            return cards.model_of(session)
        return str(self.config["device"]) if self.config["nodes"] is not None else self.machine.slug

    def resources(self, side: str) -> Resources:
        """What a paid job asks of Snakemake. One at a time, whatever --cores or --resources say; on a cluster its session's
        whole node, and so after the session's others; where cards are measured at the same time, its card's slot."""
        asks: Resources = {"paid": 1}
        if self.config["nodes"] is not None:
            asks["slurm_extra"] = lambda wc: cluster.request(self._placed(wc))
            asks["cpus_per_task"] = lambda wc: cluster.cpus(self._placed(wc))
        if side == "gpu" and self.config["nodes"] is not None:
            asks["gpu"] = 1
        if side == "gpu" and self.config["parallel_gpus"]:
            asks |= _slots()
        return asks

    def limit(self) -> None:
        """One paid job at a time on this host; the programs' own locks hold even without it."""
        if self.config["nodes"] is None:
            self.asked.workflow.global_resources["paid"] = 1

    def _placed(self, wc: Any) -> str:
        """The session, once this run knows its node; a run that only draws does not ask."""
        if self.asked.measures:
            self._agree()
        return str(wc.session)

    @cache  # one object a run
    def _agree(self) -> None:
        """Whether the jobs go where the config says; a run that submits them asks Slurm for its nodes, once."""
        asked, config = self.asked, self.config
        if not asked.by_user or not asked.runs:
            return
        try:
            cluster.check_run(asked.workflow.local_exec, str(asked.executor), config["device"], config["nodes"])
            if config["nodes"] is not None:
                cluster.hand_over(cluster.places(config["nodes"]))
        except cluster.ClusterError as error:
            sys.exit(str(error))


def _slots() -> dict[str, Callable[[Any], int]]:
    """One resource per card: 1 for the jobs of that card's session."""

    def of_card(place: int) -> Callable[[Any], int]:
        return lambda wc: int(cards.slot(wc.session) == place)

    return {f"card{place}": of_card(place) for place in range(cards.SLOTS)}
