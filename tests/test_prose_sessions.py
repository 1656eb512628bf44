"""The interpretation of many synthetic sessions, in both languages: what it must claim of each, and what it must not."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import synthetic
from rooflab.derive.checks_of_files import interpretation_answers
from rooflab.derive.document import roofline as model
from rooflab.explain.figures import Paragraph, table
from rooflab.explain.prose import interpretation, paragraphs
from rooflab.look.catalogue import LANGUAGES
from rooflab.record.keys import resolve

Record = dict[str, Any]
COMMITTED = sorted(path.parent for path in (Path(__file__).parents[1] / "results").glob("*/roofline.json"))
GEMM = synthetic.H200_GEMM
SMALL_L2 = {"l2_bytes": 100_000}
TRIED = [
    {"name": "larger matrix", "n": 8192, "refused": "out of memory: 256 MiB asked for"},
    {"name": "other path", "n": 4096, "implementation": "cublasLt candidate 0", "seconds_per_call": 0.35e-3},
]


@dataclass
class Case:
    """One session: its records, and what its text claims and does not claim, in English and in Spanish."""

    records: list[Record]
    en: tuple[str, ...]
    es: tuple[str, ...]
    not_en: tuple[str, ...] = ()
    not_es: tuple[str, ...] = ()
    name: str = "nvidia-h200"
    beside: tuple[str, ...] = ()
    plan: list[Record] = field(default_factory=list)
    change: Callable[[Record], None] = lambda roofline: None

    def model(self) -> Record:
        planned = self.plan or synthetic.planned(self.records)
        made = dict(model(self.name, synthetic.with_files(self.records), planned, gpu_sessions=self.beside))
        self.change(made)
        return made


def h200(**changes: Any) -> list[Record]:
    return synthetic.h200_session(**changes)


def decode_in(dtype: str, steps: dict[int, tuple[float, float, float]], **changes: Any) -> list[Record]:
    return h200(decode_us={dtype: steps}, **changes)


def other_card() -> Record:
    device = synthetic.H200 | {"uuid": "GPU-00000000-0000-0000-0000-000000000002"}
    return synthetic.gemm("gpu", "fp16", 4096, 700, 760, 649, 2e-4, device=device)


def with_clocks(roofline: Record) -> None:
    """Every GPU ceiling's clock inside its burst: 1626 MHz where the vendor's figure assumes 1830, 87 % of the rate used."""
    for ceiling in roofline["ceilings"]:
        if ceiling["side"] == "gpu" and ceiling["kind"] == "compute":
            ceiling |= {"clock_hz": 1.626e9, "use": {"of_issue_rate": 0.87, "reason": None},
                        "clock": {"measured_hz": 1.626e9, "vendor_hz": 1.83e9, "factor": 0.889, "reason": None}}  # fmt: skip


def without_independent_ceilings(roofline: Record) -> None:
    """No product has a ceiling that rests on another series than its own."""
    for own in roofline["answers"]["gemm"]["dtypes"].values():
        own |= {"fraction_of_ceiling": None, "fraction_of_attainable": None, "bound_by": None, "ceiling": None}
    roofline["answers"]["gemm"]["required"] = []


CASES = {
    "healthy": Case(
        h200(),
        ("**Matrix products land on their ceilings.**", "reaches 90.5 % (fp8) to 99.4 % (fp32)", "700 of 761 TFLOP/s in fp16",
         "the measured time confirms it", "76.6–79.8 % of the vendor's dense figures, where 70–90 % is expected",
         "below the textbook's 0.3–1 %", "takes 4.65 µs instead of 16 µs", "15× as fast as the CPU at S = 1024",
         "NumPy on the host's 8 cores 9.1 GFLOP/s", "Their memories lie further apart", "48 % of its own memory slope"),
        ("**Los productos de matrices alcanzan sus techos.**", "puntos de cresta", "0,3–1 % del libro de texto",
         "La GPU rinde 15× lo que la CPU con S = 1024"),
        ("lab asks why", "clock ran", "power cap held", "slowdown", "wrong", "not available", "failed"),
        ("práctica pregunta", "reducción", "errónea", "codo", "manual"),
    ),
    "with clocks": Case(
        h200(),
        ("In bf16 the gap is two things: inside the burst the clock ran at 1.63 GHz, where the vendor's figure assumes 1.83 GHz; "
         "and at that clock 87.0 % of the issue rate was used.",),
        ("dentro de la ráfaga el reloj iba a 1,63 GHz",), ("power cap the chip",), ("En su límite de potencia",), change=with_clocks,
    ),
    "with clocks at the power cap": Case(
        h200(burst_reasons=("sw_power_cap",)), ("at its power cap the chip ran the burst at 1.63 GHz",),
        ("en su límite de potencia, el chip hizo la ráfaga a 1,63 GHz",),
        change=with_clocks,
    ),
    "no independent ceiling": Case(
        h200(), ("**The matrix products have no independent ceiling to be held against.**", "cuBLAS achieves 1.40 PFLOP/s in fp8"),
        ("no tienen un techo independiente",), ("land on", "confirms", "No vendor figure"),
        ("alcanzan sus techos", "No se conoce la cifra"), change=without_independent_ceilings,
    ),
    "fp16 at 40 % of the vendor's peak": Case(
        h200(gemm=GEMM | {"fp16": (390.0, 396.0, 390.0, 396.0, 2e-4)}, investigations=TRIED),
        ("40.0–79.8 % of the vendor's dense figures", "outside that range: fp16",
         "fp16 stays below 50 % of the vendor's figure, where the lab asks why: a larger matrix could not be tried; another "
         "algorithm gave 393 TFLOP/s"),
        ("fp16 no llega al 50 %", "no se pudo probar una matriz mayor", "otro algoritmo dio 393 TFLOP/s"),
        ("bf16 stays below", "confirms it"),
    ),
    "fp16 at 40 %, nothing tried": Case(
        h200(gemm=GEMM | {"fp16": (390.0, 396.0, 390.0, 396.0, 2e-4)}),
        ("the record holds no trial of it",), ("el registro no contiene ninguna prueba",), ("could not be tried",),
    ),
    "a product that misses its own ceiling": Case(
        h200(gemm=GEMM | {"bf16": (470.0, 790.0, 678.0, 788.0, 1.7e-3)}),
        ("**Not every matrix product reaches its ceiling.**", "59.5 % (bf16)",
         "For bf16 the roofline names compute as the limit, but the time reaches only 59.5 % of that roof"),
        ("**No todos los productos de matrices alcanzan su techo.**", "solo llega al 59,5 %"),
        ("land on", "confirms"), ("**Los productos de matrices alcanzan",),
    ),
    "a product above its ceiling": Case(
        h200(gemm=GEMM | {"bf16": (990.0, 790.0, 678.0, 788.0, 1.7e-3)}),
        ("**A matrix product lies above its ceiling, so one of the two measurements is wrong.**",),
        ("queda por encima de su techo, así que una de las dos mediciones es errónea",), ("confirms it", "land on"),
        change=lambda r: r["answers"]["gemm"]["dtypes"]["bf16"].update(above_roof=True),
    ),
    "products faster than the bursts of a disturbed host": Case(
        synthetic.cpu_session(),
        ("**A matrix product is faster than the bursts that are its ceiling, so that ceiling is too low.**",),
        ("así que ese techo es demasiado bajo",), ("lands on", "confirms it"), name="cpu-example",
        change=lambda r: r["answers"]["gemm"]["dtypes"]["fp32"].update(fraction_of_ceiling=1.47, fraction_of_attainable=1.47),
    ),
    "throttled": Case(
        h200(burst_reasons=("hw_thermal_slowdown",), sustained_reasons=("hw_thermal_slowdown",)),
        ("Already in the bursts of fp8, bf16, fp16 and fp32 the driver named a thermal slowdown by hardware",),
        ("el controlador señalaba una reducción térmica por hardware",), ("power cap",), ("límite de potencia",),
    ),
    "sustained far below burst, with a reason": Case(
        h200(gemm={"fp16": (700.0, 760.0, 380.0, 761.0, 2.1e-4)}, sustained_reasons=("sw_power_cap",)),
        ("Seconds of load without a pause leave 49.8 % of the burst in fp16; the driver then names the software power cap",
         "**The matrix product lands on its ceiling.**", "The ceiling is 76.9 %"),
        ("dejan el 49,8 % de la ráfaga en fp16", "el límite de potencia por software"), ("thermal", "The ceilings"), ("térmica",),
    ),
    "sustained far below burst, without a reason": Case(
        h200(gemm={"fp16": (700.0, 760.0, 380.0, 761.0, 2.1e-4)}, sustained_reasons=("gpu_idle",)),
        ("leave 49.8 % of the burst in fp16.",), ("dejan el 49,8 % de la ráfaga en fp16.",), ("driver", "thermal"),
        ("controlador",),
    ),
    "decode on the HBM slope": Case(
        decode_in("fp16", {2**20: (900.0, 560.0, 550.0), 2**21: (1900.0, 1100.0, 1000.0)}),
        ("**A single-token step runs at the HBM slope.**", "S = 1048576–2097152", "That lies inside the textbook's 0.3–1 %",
         "K and V, 2–4 GiB, come from HBM"),
        ("**El paso de un token va por la pendiente de HBM.**", "Queda dentro del 0,3–1 %"),
        ("limited by its launch", "instead of", "L2"), ("lanzamiento, no la memoria",),
    ),
    "decode from L2, whose slope was not measured": Case(
        decode_in("fp16", {28672: (60.0, 12.0, 11.0)}),
        ("**A single-token step keeps pace with HBM, though its K and V come from L2.**", "K and V, 56 MiB, come from L2",
         "At S = 28672 it takes 12.0 µs"),
        ("va al ritmo de HBM, aunque K y V vienen de la L2",), ("runs at the", "launch, not by memory", "Over S"),
        ("pendiente de L2", "Para S"),
    ),
    "decode on the L2 slope": Case(
        decode_in("fp16", {28672: (60.0, 12.0, 11.0)}, gb_per_s=synthetic.H200_GB_PER_S | {"l2": 5500.0}),
        ("**A single-token step runs at the L2 slope.**",), ("va por la pendiente de L2",), ("keeps pace", "launch, not by"),
    ),
    "a step at its launch floor": Case(
        decode_in("fp16", {128: (30.0, 10.0, 3.0), 1024: (31.0, 11.0, 3.5)}),
        ("**A single-token step is limited by its launch, not by memory.**", "an empty launch alone takes 9.3 µs",
         "which speaks of a step that memory limits, not the launch"),
        ("**El paso de un token lo limita su lanzamiento, no la memoria.**",), ("below every roof",), ("bajo todos los techos",),
    ),
    "a step far above its launch floor": Case(
        decode_in("fp16", {128: (30.0, 200.0, 190.0), 1024: (31.0, 210.0, 195.0)}),
        ("**A single-token step stays below every roof; its launch is the nearest.**", "takes 30–31 µs"),
        ("queda bajo todos los techos; el más próximo es su lanzamiento",), ("is limited by its launch",),
    ),
    "steps in two regimes": Case(
        decode_in("fp16", {128: (99.0, 12.0, 3.0), 2**21: (1900.0, 1100.0, 1000.0)}),
        ("**Single-token steps are not all limited by the same thing.**",
         "Limited by its launch: fp16 at S = 128; by HBM: fp16 at S = 2097152.", "Not all of it lies inside the textbook's"),
        ("Los limita: su lanzamiento, en fp16 con S = 128; la HBM, en fp16 con S = 2097152.",), ("launch, not by memory",),
    ),
    "a step faster than its roof": Case(
        decode_in("fp16", {8192: (60.0, 2.6, 2.4)}),
        ("**Some steps are faster than their measured roof, so one of the two measurements is wrong.**",
         "Those in fp16 at S = 8192 come out at 358 % of their roof"),
        ("Algunos pasos son más rápidos que su techo medido", "al 358 % de su techo"), ("limited by its launch",),
    ),
    "a batch that fills the HBM": Case(
        h200(hbm_us=520.0),
        ("With 2 GiB of K and V a step in fp16 reads HBM at 4.13 TB/s and takes 520 µs; that is 87.6 % of the HBM slope and "
         "0.543 % of the peak, as the textbook says.",),
        ("Con 2 GiB de K y V, un paso en fp16 lee HBM a 4,13 TB/s", "como dice el libro de texto"),
    ),
    "the CPU faster at small S": Case(
        h200(cpu_decode_us={128: 3.0, 256: 9.0, 512: 130.0, 1024: 230.0}),
        ("**The CPU is faster at S = 128 (the GPU is 0.24× as fast), the GPU at S = 1024 (15× as fast).**",),
        ("**La CPU es más rápida con S = 128 (la GPU rinde 0,24×)",),
    ),
    "a launch that the operator waits for": Case(
        h200(decode_us={"fp32": {128: (30.0, 10.0, 3.0), 1024: (31.0, 11.0, 3.5)}}),
        ("The operator gains less because the GPU's step waits for its launch",),
        ("El operador gana menos porque el paso de la GPU espera a su lanzamiento",), ("name no cause",),
    ),
    "the ratio of the bandwidths, on both slopes": Case(
        decode_in("fp32", {2**18: (400.0, 250.0, 240.0)}, facts=SMALL_L2, cpu_decode_us={2**18: 30_000.0}),
        ("Their memories lie about as far apart", "Both steps run at their own memory slope", "so the reference is a fair one"),
        ("Ambos pasos van por la pendiente de su memoria",), ("chance", "flatters"), ("casualidad",),
    ),
    "the ratio of the bandwidths, by chance": Case(
        h200(cpu_decode_us={1024: 1850.0}), ("That the two ratios agree is chance", "flatters the GPU"), ("es casualidad",),
        ("at their own memory slope",),
    ),
    "the ratio above the bandwidths'": Case(
        h200(cpu_decode_us={1024: 4000.0}), ("Their memories lie closer together",
         "because the CPU's step lies below every one of its roofs"),
        ("Sus memorias difieren menos", "porque el paso de la CPU queda bajo todos sus techos"), ("waits for its launch",),
    ),
    "bf16 and fp8 missing": Case(
        h200(unsupported=("bf16-n4096", "bf16-n8192", "fp8_e4m3-n4096", "fp8_e4m3-n8192")),
        ("Products in bf16 and fp8 are not available here.",), ("Aquí no hay productos en bf16 y fp8.",), ("TFLOP/s in bf16", "in fp8 and"),
    ),
    "no fp16 peak": Case(
        h200(without=("fp16-n4096", "fp16-n8192")),
        ("The textbook's 0.3–1 % cannot be judged, because no fp16 peak was measured.",), ("no se puede juzgar",),
        ("of the measured peak", "All of it"), ("del pico medido",),
    ),
    "two cards in one session": Case(
        h200(without=("fp16-n4096",), extra=[other_card()]), ("[report.html](report.html)",), ("[report.html](report.html)",),
    ),
    "a GPU without a CPU": Case(
        synthetic.gpu_records(),
        ("**There is no ratio of GPU to CPU here.** One of the two sides has no decode attention in fp32", "HBM read at 4.71 TB/s"),
        ("**Aquí no hay razón entre GPU y CPU.**", "lectura de HBM a 4,71 TB/s"), ("as fast as the CPU",),
    ),
    "a CPU alone": Case(
        synthetic.cpu_session(),
        ("BLAS reaches", "No vendor figure is known for fp32", "no GPU session lies beside it", "so a CPU is not held against it",
         "**A single-token step stays below the DRAM slope, though its K and V come from the cache.**"),
        ("No se conoce la cifra del fabricante para fp32", "no hay ninguna sesión de GPU a su lado"),
        ("cuBLAS", "L2", "HBM", "Tensor"), ("cuBLAS", "HBM"), name="cpu-example",
    ),
    "a CPU beside a GPU session": Case(
        synthetic.cpu_session(), ("the GPU sessions beside it hold the comparison",), ("las sesiones de GPU que hay a su lado",),
        name="cpu-example", beside=("nvidia-h200",),
    ),
    "half a session": Case(
        [r for r in h200() if r["stage"] != "decode"],
        ("**Decode attention was not measured.** Some steps in bf16, fp16 and fp32 are still to be measured.",),
        ("**No se midió la atención en decodificación.** Quedan por medir algunos pasos",), ("it takes", "textbook"),
        ("libro de texto",), plan=synthetic.planned(h200()),
    ),
    "a failed measurement": Case(
        h200(failed=("bf16-n4096", "bf16-n8192")), ("The measurement in bf16 failed.",), ("La medición en bf16 falló.",),
        ("not available",),
    ),
    "nothing at all": Case(
        [], ("**No BLAS product was measured.**", "No pair of steps was measured on both sides."), ("No se midió ningún producto",),
        ("measured a CPU alone",), name="nvidia-l4",
    ),
}  # fmt: skip
EVERY = [(name, language) for name in CASES for language in LANGUAGES]


@cache
def told(name: str, language: str) -> tuple[Record, list[Paragraph], str]:
    """The model of a case, its paragraphs, and the whole text."""
    roofline = CASES[name].model()
    said = paragraphs(roofline, language)
    return roofline, said, interpretation(roofline, said, language)


@pytest.mark.parametrize("name", CASES)
def test_each_session_is_told_as_it_is(name: str) -> None:
    case = CASES[name]
    for language, made, not_made in (("en", case.en, case.not_en), ("es", case.es, case.not_es)):
        _, said, text = told(name, language)
        body = "\n".join(paragraph.text for paragraph in said)
        assert [claim for claim in made if claim not in text] == [], text
        assert [claim for claim in not_made if claim in body] == [], text


@pytest.mark.parametrize(("name", "language"), EVERY)
def test_three_paragraphs_that_a_reader_takes_in_with_the_verdict_first(name: str, language: str) -> None:
    _, said, text = told(name, language)
    assert [paragraph.part for paragraph in said] == ["gemm", "decode", "cpu"]
    for paragraph in said:
        assert 60 <= len(paragraph.text.split()) <= 130, paragraph.text
        assert re.match(r"\*\*[^*]+\.\*\* \S", paragraph.text), paragraph.text
    assert "<!--" not in text
    assert not re.search(r"\{\w|None|\bnan\b|[\ue000-\ue002]|e[+-]\d\d|\.\.|  ", text), text


@pytest.mark.parametrize(("name", "language"), EVERY)
def test_every_number_is_traced_and_what_the_questions_need_is_cited(name: str, language: str) -> None:
    roofline, said, text = told(name, language)
    check = interpretation_answers(roofline, text, table(said))
    assert check["status"] == "pass", check["reason"]


@pytest.mark.parametrize("name", CASES)
def test_both_languages_cite_figures_that_are_in_the_model(name: str) -> None:
    roofline = told(name, "en")[0]
    files = {each["file"] for each in roofline["generated_from"]} | {"roofline.json"}
    for language in LANGUAGES:
        for paragraph in told(name, language)[1]:
            for shown, figure in paragraph.shown:
                assert resolve(roofline, figure.key) == figure.value
                assert figure.record in files, figure
                assert shown in paragraph.text


@pytest.mark.parametrize("folder", COMMITTED, ids=lambda folder: folder.name)
def test_a_committed_page_says_what_limits_the_products(folder: Path) -> None:
    """Clocks and the data sheet do not crowd out the answer to the first question: what limits the products, and whether it is so."""
    body = paragraphs(json.loads((folder / "roofline.json").read_text(encoding="utf-8")), "en")[0].text
    assert any(each in body for each in ("compute-bound, and the measured time confirms it", "that ceiling is too low"))


def test_a_number_that_is_not_listed_or_not_true_fails_the_check() -> None:
    roofline, said, text = told("healthy", "en")
    for wrong, figures in ((text.replace("0.3–1 %", "0.4–1 %"), table(said)), (text, table(said).replace("0.003", "0.004")),
                           (text, table(said[:2])), (text, None), (None, table(said)), (text.replace("**", ""), table(said))):  # fmt: skip
        assert interpretation_answers(roofline, wrong, figures)["status"] == "fail"
    shorter = [Paragraph(p.part, "**Nothing.** At all.", []) for p in said]
    assert interpretation_answers(roofline, interpretation(roofline, shorter), table(shorter))["status"] == "fail"


@pytest.mark.parametrize("name", CASES)
def test_the_spanish_text_is_spanish(name: str) -> None:
    body = " ".join(paragraph.text for paragraph in told(name, "es")[1])
    assert re.findall(r"\b(?:the|and|with|which|not|measured|step|fused|codo|manual)\b", body) == []
    assert not re.search(r"\d\.\d", body)
