"""The interpretation of many synthetic sessions, in both languages: what it must claim of each, and what it must not."""

import re
from dataclasses import dataclass, field
from typing import Any

import pytest
import synthetic
from free.interpretation import interpret
from rooflab.derive.checks import interpretation_answers
from rooflab.derive.document import roofline as model
from rooflab.look.catalogue import LANGUAGES

Record = dict[str, Any]
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

    def model(self) -> Record:
        planned = self.plan or synthetic.planned(self.records)
        return model(self.name, synthetic.with_files(self.records), planned, gpu_sessions=self.beside)


def h200(**changes: Any) -> list[Record]:
    return synthetic.h200_session(**changes)


def decode_in(dtype: str, steps: dict[int, tuple[float, float, float]], **changes: Any) -> list[Record]:
    return h200(decode_us={dtype: steps}, **changes)


def other_card() -> Record:
    device = synthetic.H200 | {"uuid": "GPU-00000000-0000-0000-0000-000000000002"}
    return synthetic.gemm("gpu", "fp16", 4096, 700, 760, 649, 2e-4, device=device)


CASES = {
    "healthy": Case(
        h200(),
        ("All 4 cuBLAS points land within 10 % of their measured ceilings", "the clock confirms the diagnosis",
         "4 inside, 0 below, 0 above", "Decode points on a memory slope: 0 of 12", "of 12 points 12 lie below",
         "the data contradict it", "far below that, 0.124× as large", "the GPU's step lies below every one of its roofs"),
        ("Los 4 puntos de cuBLAS caen a menos de un 10 % de sus techos medidos", "el reloj confirma el diagnóstico",
         "0 de 12", "los datos lo contradicen", "muy por debajo (0,124× aquella)"),
        ("where the lab asks why", "held down", "reads K and V from L2, not from HBM", "copy slope", "faster one",
         "Not measured", "Failed"),
        ("donde la práctica pregunta por qué", "frenado", "pendiente de copia", "la más rápida", "Sin medir"),
    ),
    "fp16 at 40 % of the vendor's peak": Case(
        h200(gemm=GEMM | {"fp16": (390.0, 396.0, 390.0, 396.0, 2e-4)}, investigations=TRIED),
        ("40 % of 989 TFLOP/s in fp16", "3 inside, 1 below, 0 above",
         "diagnoses compute-bound for bf16, fp32 and fp8 e4m3, and the clock confirms it at 90.5–99.4 %",
         "fp16 stays below the 50 % of the vendor's peak",
         "reached the 50 %: 0 of 2 (a larger matrix (n = 8192), refused: out of memory", "393 TFLOP/s or 39.7 %",
         "Failed checks (1): cuBLAS GEMM in 3 or more dtypes"),
        ("el 40 % de 989 TFLOP/s en fp16", "fp16 se queda por debajo del 50 %", "rechazado: sin memoria",
         "llegan al 50 %: 0 de 2"),
        ("bf16 stays below", "they stand right"),
    ),
    "fp16 at 40 %, nothing tried": Case(
        h200(gemm=GEMM | {"fp16": (390.0, 396.0, 390.0, 396.0, 2e-4)}),
        ("the record holds no trial of it (0)",), ("no contiene ninguna prueba (0)",), ("trials that reached",),
    ),
    "a product that misses its own ceiling": Case(
        h200(gemm=GEMM | {"bf16": (470.0, 790.0, 678.0, 788.0, 1.7e-3)}),
        ("More than 20 % below its measured ceiling: 1 of 4 cuBLAS points (bf16 at 59.5 % of it)",
         "diagnoses compute-bound for bf16, which the clock does not confirm (at most 59.5 % of that roof)"),
        ("A más de un 20 % por debajo de su techo medido: 1 de 4 puntos de cuBLAS (bf16, al 59,5 %)",
         "el reloj no lo confirma"),
        ("All 4", "within 10 %", "within 20 %"), ("Los 4 puntos",),
    ),
    "throttled": Case(
        h200(burst_reasons=("hw_thermal_slowdown",), sustained_reasons=("hw_thermal_slowdown",)),
        ("Already during the bursts of bf16, fp16, fp32 and fp8 e4m3 the driver named a thermal slowdown by hardware at "
         "1450 MHz; bursts on a chip held down: 4 of 4", "the driver names a thermal slowdown by hardware as the reason"),
        ("una reducción térmica por hardware a 1450 MHz; ráfagas con el chip frenado: 4 de 4",),
        ("power cap",), ("límite de potencia",),
    ),
    "sustained far below burst, with a reason": Case(
        h200(gemm={"fp16": (700.0, 760.0, 380.0, 761.0, 2.1e-4)}, sustained_reasons=("sw_power_cap",)),
        ("Seconds of load take fp16 down to 49.8 % of the burst, at 690 W and 1450 MHz instead of 1980 MHz; the driver "
         "names the software power cap as the reason", "The one cuBLAS point, fp16, lands within 10 %"),
        ("Segundos de carga bajan fp16 al 49,8 % de la ráfaga", "el límite de potencia por software"),
        ("thermal", "names no reason", "they stand"), ("térmica",),
    ),
    "sustained far below burst, without a reason": Case(
        h200(gemm={"fp16": (700.0, 760.0, 380.0, 761.0, 2.1e-4)}, sustained_reasons=("gpu_idle",)),
        ("down to 49.8 % of the burst", "the driver names no reason"), ("el controlador no da ningún motivo",),
        ("power cap", "thermal"), ("límite de potencia", "térmica"),
    ),
    "decode on the HBM slope": Case(
        decode_in("fp16", {2**20: (900.0, 560.0, 550.0), 2**21: (1900.0, 1100.0, 1000.0)}),
        ("Decode points under the slope of HBM read: 2 of 2, at 81.4–82.8 % of what it allows", "K and V lie in HBM",
         "of 2 points 0 lie below, 2 inside and 0 above: the data agree with it"),
        ("Puntos de decodificación bajo la pendiente de lectura de HBM: 2 de 2", "los datos le dan la razón"),
        ("L2", "contradict", "The launch bounds", "copy slope of"), ("lo contradicen", "limita el lanzamiento"),
    ),
    "decode above the copy, on reads alone": Case(
        decode_in("fp16", {2**21: (1900.0, 960.0, 950.0)}),
        ("Up to 4470 GB/s is moved by fp16 at S = 2097152, 1.04× the copy slope of 4290 GB/s: the copy counts reads and "
         "writes",),
        ("la copia cuenta lecturas y escrituras",), ("come from L2",), ("vienen de L2",),
    ),
    "decode above D2D because of L2": Case(
        decode_in("fp16", {28672: (60.0, 12.0, 11.0)}),
        ("Up to 4890 GB/s is moved by fp16 at S = 28672, 1.14× the copy slope of 4290 GB/s: their K and V come from L2",
         "bound by L2, whose own slope was not measured", "K and V lie in L2 (56 MiB)",
         "the data agree with it; of the 1 inside, HBM bounds 0"),
        ("sus K y V vienen de L2, no de la memoria principal", "de los 1 de dentro, HBM limita 0",
         "limitados por L2, cuya pendiente no se midió"),
        ("under the slope of HBM", "The launch bounds"), ("bajo la pendiente de lectura de HBM",),
    ),
    "decode on the L2 slope": Case(
        decode_in("fp16", {28672: (60.0, 12.0, 11.0)}, gb_per_s=synthetic.H200_GB_PER_S | {"l2": 5500.0}),
        ("Decode points under the slope of L2 read: 1 of 1, at 89",), ("bajo la pendiente de lectura de L2: 1 de 1, al 89",),
        ("was not measured:", "The launch bounds"), ("cuya pendiente no se midió",),
    ),
    "a launch-bound chain": Case(
        decode_in("fp16", {128: (30.0, 200.0, 190.0), 1024: (31.0, 210.0, 195.0)}),
        ("0 of 2. The launch bounds every one of them", "the lab's point (a chain of CuPy calls)", "210 µs (6.77×) as one fused kernel"),
        ("del punto de la práctica (cadena de llamadas de CuPy)", "210 µs (6,77×) como un solo kernel fusionado"),
        ("under the slope", "did not always take longer"), ("bajo la pendiente", "no siempre tardó más"),
    ),
    "latency that falls with S, between programs": Case(
        decode_in("fp16", {128: (99.0, 20.0, 3.0), 256: (99.0, 14.0, 3.0), 512: (99.0, 25.0, 3.0)}),
        ("A longer cache did not always take longer (fp16: 20 µs at S = 128, 14 µs at S = 256): each S was measured by a "
         "program of its own",),
        ("Una caché más larga no siempre tardó más (fp16: 20 µs con S = 128, 14 µs con S = 256): cada S",),
        ("within the noise", "25 µs at S"), ("caben en el ruido",),
    ),
    "steps in two regimes": Case(
        decode_in("fp16", {128: (99.0, 12.0, 3.0), 2**21: (1900.0, 1100.0, 1000.0)}),
        ("Decode points, 2 in all: 1 bound by launch (fp16 at S = 128) and 1 bound by HBM (fp16 at S = 2097152)",
         "the data partly agree with it"),
        ("1 con límite en el lanzamiento (fp16 con S = 128) y 1 con límite en HBM", "le dan la razón solo en parte"),
        ("The launch bounds every",),
    ),
    "a step faster than its roof": Case(
        decode_in("fp16", {8192: (60.0, 2.6, 2.4)}),
        ("1 faster than the measured roof, at 358 % of it (fp16 at S = 8192)", "Failed checks"),
        ("1 por encima del techo medido, al 358 %",), ("The launch bounds",), ("limita el lanzamiento",),
    ),
    "a batch that fills the HBM": Case(
        h200(hbm_us=520.0),
        ("A cache of 2 GiB in fp16, read from HBM, takes 520 µs a step", "87.6 % of what its bound (HBM) allows",
         "0.543 % of the peak, inside the textbook's 0.3–1 %", "of 12 points 12 lie below"),
        ("Una caché de 2 GiB en fp16, leída de HBM", "dentro del 0,3–1 % del manual"),
    ),
    "the CPU faster at small S": Case(
        h200(cpu_decode_us={128: 3.0, 256: 9.0, 512: 130.0, 1024: 230.0}),
        ("The CPU is the faster one at S = 128 and 256: 3 µs a step against 12.7 µs and 9 µs a step against 14.2 µs; "
         "there the launch bounds the GPU (an empty one takes 9.3 µs)", "0.236–15.4×"),
        ("La CPU es la más rápida con S = 128 y 256", "ahí el lanzamiento limita a la GPU"),
    ),
    "the ratio of the bandwidths, on both slopes": Case(
        decode_in("fp32", {2**18: (400.0, 250.0, 240.0)}, facts=SMALL_L2, cpu_decode_us={2**18: 30_000.0}),
        ("near that, 0.968× as large: the GPU's step is bound by HBM and the CPU's by DRAM, as the roofline says",),
        ("queda cerca (0,968× aquella): al paso de la GPU lo limita HBM y al de la CPU DRAM",),
        ("launch bounds", "far below", "the agreement is not"), ("muy por debajo", "no es obra"),
    ),
    "the ratio of the bandwidths, by chance": Case(
        h200(cpu_decode_us={1024: 1850.0}),
        ("near that, 1×", "so the agreement is not the work of the two slopes"),
        ("la coincidencia no es obra de las dos pendientes",), ("as the roofline says",),
    ),
    "the ratio above the bandwidths'": Case(
        h200(cpu_decode_us={1024: 4000.0}),
        ("far above that, 2.16× as large: the CPU's step lies below every one of its roofs",),
        ("muy por encima (2,16× aquella): el paso de la CPU queda por debajo",),
        ("launch bounds the GPU's step (", "not from DRAM"),
    ),
    "bf16 and fp8 missing": Case(
        h200(unsupported=("bf16-n4096", "bf16-n8192", "fp8_e4m3-n4096", "fp8_e4m3-n8192")),
        ("All 2 cuBLAS points", "Not measured (4): GPU bf16-n4096 (unsupported: bf16-n4096 is unsupported)",
         "Failed checks (1)", "(2 of 3 dtypes measured)"),
        ("Los 2 puntos", "Sin medir (4): GPU bf16-n4096 (no disponible: «bf16-n4096 is unsupported»)",
         "(2 de 3 formatos medidos)"),
        ("TFLOP/s in bf16", "in fp8 e4m3"),
    ),
    "no fp16 peak": Case(
        h200(without=("fp16-n4096", "fp16-n8192")),
        ("cannot be judged, because the fp16 Tensor Core peak was not measured",), ("no se puede juzgar",),
        ("of the peak", "contradict", "agree"), ("del pico)", "lo contradicen"),
    ),
    "two cards in one session": Case(
        h200(without=("fp16-n4096",), extra=[other_card()]),
        ("notes of the records (1)", "- gpu: measured on 2 devices: GPU-00000000"),
        ("notas de los registros (1)", "- gpu: medido en 2 dispositivos: GPU-00000000"),
    ),
    "a GPU without a CPU": Case(
        synthetic.gpu_records(),
        ("There is no ratio of GPU to CPU here (0 pairs): no fp32 decode attention measured on: cpu", "HBM read 4710 GB/s"),
        ("Aquí no hay razón entre GPU y CPU (0 pares): no se midió", "lectura de HBM, 4710 GB/s"),
        ("PCIe", "× the CPU"), ("PCIe",),
    ),
    "a CPU alone": Case(
        synthetic.cpu_session(),
        ("All 2 BLAS points", "no vendor peak for fp32 and fp64 (0 of 2)", "no GPU session lies beside it",
         "which a CPU does not have", "Decode points bound by cache, whose own slope was not measured"),
        ("no contiene el pico del fabricante para fp32 y fp64", "no hay ninguna sesión de GPU a su lado"),
        ("cuBLAS", "contradict", "L2", "HBM"), ("cuBLAS", "HBM"), name="cpu-example",
    ),
    "a CPU beside a GPU session": Case(
        synthetic.cpu_session(), ("GPU sessions beside it: nvidia-h200",), ("sesiones de GPU a su lado: nvidia-h200",),
        name="cpu-example", beside=("nvidia-h200",),
    ),
    "half a session": Case(
        [r for r in h200() if r["stage"] != "decode"],
        ("No decode attention was measured (0 points).", "Not measured (16): CPU minigpt-fp32-S1024, CPU minigpt-",
         "10 more (not measured yet)"),
        ("No se midió la atención en decodificación (0 puntos).", "Sin medir (16): CPU minigpt-fp32-S1024", "10 más (aún sin medir)"),
        ("a step takes", "textbook"), ("manual",), plan=synthetic.planned(h200()),
    ),
    "nothing at all": Case(
        [], ("No BLAS product was measured (0 points).", "0 pairs"), ("No se midió ningún producto",), name="nvidia-l4",
    ),
}  # fmt: skip
EVERY = [(name, language) for name in CASES for language in LANGUAGES]

NAMES = re.compile(
    r"\b(?:\w+(?:-\w+)*-[nS]\d+[\w.-]*|GPU-\S+|[tb]?[fp]+\d+(?: e4m3)?|int8|L2|candidate \d+|NVIDIA \w+|nvidia-\w+)"
    r"|[Sn] = \d+(?:(?:, \d+)*(?: and| y) \d+)?|10th to 90th percentiles|percentiles 10 a 90"
)
COUNTS = re.compile(
    r"\(\d+\)|\(\d+ (?:points|puntos|pairs|pares)\)|\b\d+ (?:of|de) \d+\b|\b(?:of|de) \d+ (?:points|puntos)"
    r"|\bAll \d+|\bLos \d+|quedan \d+|\b\d+ (?:more|más|in all|en total|bound by"
    r"|con límite|faster than|por encima|por debajo|inside|dentro|below|lie below|above)\b"
    r"|of the \d+ inside, HBM bounds \d+|de los \d+ de dentro, HBM limita \d+|\b[34] (?:or more|o más)\b"
)
WITH_UNIT = re.compile(
    r"\d[\d.,]*(?:–\d[\d.,]*)?(?:×|%|\s(?:%|[TGMk]?FLOP/s|FLOP/byte|GB/s|[mµn]?s|MHz|W|B|bytes|[KMG]iB)(?![\w/]))"
    r"|PCIe (?:0 bytes)"
)


def paragraphs(text: str) -> list[str]:
    blocks = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).strip().split("\n\n")
    return [block.strip() for block in blocks if not block.strip().startswith("#")]


@pytest.mark.parametrize("name", CASES)
def test_each_session_is_told_as_it_is(name: str) -> None:
    case = CASES[name]
    roofline = case.model()
    for language, made, not_made in (("en", case.en, case.not_en), ("es", case.es, case.not_es)):
        text = re.sub(r"<!--.*?-->", "", interpret(roofline, language))
        assert [claim for claim in made if claim not in text] == [], text
        assert [claim for claim in not_made if claim in text] == [], text


@pytest.mark.parametrize(("name", "language"), EVERY)
def test_three_paragraphs_with_their_figures(name: str, language: str) -> None:
    roofline = CASES[name].model()
    text = interpret(roofline, language)
    assert len(paragraphs(text)) == 3
    assert interpretation_answers(roofline, text)["status"] == "pass"
    assert not re.search(r"\{\w|None|\bnan\b", text)


@pytest.mark.parametrize(("name", "language"), EVERY)
def test_no_sentence_without_its_number(name: str, language: str) -> None:
    for paragraph in paragraphs(interpret(CASES[name].model(), language)):
        for sentence in re.split(r"(?<=[.])\s+(?=[A-ZÁ])", paragraph):
            assert re.search(r"\d", sentence), sentence


@pytest.mark.parametrize(("name", "language"), EVERY)
def test_no_number_without_its_unit(name: str, language: str) -> None:
    text = "\n".join(paragraphs(interpret(CASES[name].model(), language)))
    for known in (NAMES, WITH_UNIT, COUNTS):
        text = known.sub("", text)
    assert re.findall(r".{0,30}\d.{0,20}", text) == []


@pytest.mark.parametrize("name", CASES)
def test_the_spanish_text_is_spanish(name: str) -> None:
    text = re.sub(r"<!--.*?-->|«.*?»", "", interpret(CASES[name].model(), "es"))
    assert re.findall(r"\b(?:the|and|with|which|not|measured|step)\b", text) == []
    assert not re.search(r"\d\.\d", text)
