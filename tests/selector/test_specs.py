import pytest
from earl_selector import DEVICE_SPECS, MODEL_SHAPES
from earl_selector.specs import HUB_IDS, catalogue_name


@pytest.mark.parametrize(
    ("name", "num_parameters"),
    [
        # Totals that the hub shows for the weight files; of tied models, without the copy.
        ("qwen2.5-0.5b", 494_032_768),
        ("qwen2.5-1.5b", 1_543_714_304),
        ("qwen2.5-3b", 3_085_938_688),
        ("qwen2.5-7b", 7_615_616_512),
        ("qwen2.5-14b", 14_770_033_664),
        ("qwen2.5-32b", 32_763_876_352),
        ("qwen2.5-72b", 72_706_203_648),
        ("qwen3-0.6b", 596_049_920),
        ("qwen3-4b", 4_022_468_096),
        ("qwen3-8b", 8_190_735_360),
        ("qwen3-14b", 14_768_307_200),
        ("qwen3-32b", 32_762_123_264),
        ("qwen3-30b-a3b", 30_532_122_624),
        ("qwen3-235b-a22b", 235_093_634_560),
        ("llama-3.2-1b", 1_235_814_400),
        ("llama-3.2-3b", 3_212_749_824),
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.1-70b", 70_553_706_496),
        ("llama-3.1-405b", 405_853_388_800),
        ("mistral-7b-v0.3", 7_248_023_552),
        ("mistral-nemo-2407", 12_247_782_400),
        ("mistral-small-24b-2501", 23_572_403_200),
        ("mixtral-8x7b-v0.1", 46_702_792_704),
        ("smollm2-135m", 134_515_008),
        ("smollm2-360m", 361_821_120),
        ("smollm2-1.7b", 1_711_376_384),
    ],
)
def test_catalogued_shapes_have_the_published_parameter_counts(name, num_parameters):
    assert MODEL_SHAPES[name].num_parameters == num_parameters


@pytest.mark.parametrize(
    ("hub_id", "name"),
    [
        ("Qwen/Qwen2.5-72B-Instruct", "qwen2.5-72b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b"),
        ("smollm2-135m", "smollm2-135m"),
    ],
)
def test_a_tuned_model_goes_by_the_name_of_its_sizes(hub_id, name):
    assert catalogue_name(hub_id) == name
    assert name in MODEL_SHAPES


def test_every_shape_has_a_source_and_its_own_name():
    assert list(HUB_IDS) == list(MODEL_SHAPES)
    assert all(shape.name == name for name, shape in MODEL_SHAPES.items())
    assert all(hub_id.count("/") == 1 for hub_id in HUB_IDS.values())


def test_devices_show_a_little_less_memory_than_they_are_sold_with():
    sold_gib = {"a100-40gb": 40, "a100-80gb": 80, "h100-80gb": 80, "rtx4090-24gb": 24, "l40s": 48}
    for name, gib in sold_gib.items():
        assert 0.92 < DEVICE_SPECS[name].memory_bytes / (gib * 2**30) < 1.0, name
    # Sold in 10^9 bytes.
    assert 141e9 < DEVICE_SPECS["h200-141gb"].memory_bytes < 152e9
    assert 180e9 < DEVICE_SPECS["b200"].memory_bytes < 192e9


def test_rates_are_per_direction_and_dense():
    device = DEVICE_SPECS["h100-80gb"]
    assert device.memory_bytes_per_s == pytest.approx(3.35e12)
    assert device.link_bytes_per_s == pytest.approx(900e9 / 2)
    assert device.flops_per_s == pytest.approx(1979e12 / 2, rel=1e-3)
    assert all(name == device.name for name, device in DEVICE_SPECS.items())
