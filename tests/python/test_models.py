"""MAViT in Python: equal to the golden answers of an independent program, as the C++ models are."""

import copy
import pickle

import mala
import pytest
import torch
from mala.models import Mavit, MavitConfig
from torch.nn import functional as F

# The float32 rounding of a model of six blocks, as the test of the C++ model allows it.
CLOSE = {"rtol": 2e-3, "atol": 2e-4}
TINY = {"dims": (8, 8, 16, 16), "depths": (1, 1, 2, 1), "heads": (1, 1, 2, 1), "projection": 20,
        "num_classes": 7}
MIXERS = {"hybrid": ("mala", "mala", "softmax", "softmax"),
          "linear": ("inline", "linear", "mala", "linear")}
PARAMETERS = {"mavit_t": 16_449_128, "mavit_s": 27_142_568, "mavit_b": 49_792_648,
              "mavit_l": 97_766_088, "mavit_n": 1_888_298}


@pytest.fixture(params=MIXERS)
def tiny(request, golden):
    """The golden model with its weights, and which set of mixers it has."""
    model = Mavit(MavitConfig(**TINY, mixers=MIXERS[request.param]))
    assert set(model.state_dict()) == set(golden["weights"])
    model.load_state_dict(golden["weights"])
    return model, request.param


def test_logits_are_the_golden_ones(tiny, golden):
    model, name = tiny
    answers = golden["answers"]
    with torch.no_grad():
        logits = model.eval()(answers["images"])
        torch.testing.assert_close(logits, answers[f"logits.{name}"], **CLOSE)
        exact = model.double()(answers["images"].double()).float()
    torch.testing.assert_close(exact, answers[f"logits.{name}"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_loss_and_gradients_are_the_golden_ones(tiny, golden, checkpointing):
    model, name = tiny
    answers = golden["answers"]
    model.train().double().set_grad_checkpointing(checkpointing)
    images = answers["images"].double().requires_grad_()
    loss = F.cross_entropy(model(images), torch.arange(len(images)) % TINY["num_classes"])
    torch.testing.assert_close(loss.float(), answers[f"loss.{name}"], rtol=1e-5, atol=1e-6)
    loss.backward()
    ours = {"images": images.grad, **{n: p.grad for n, p in model.named_parameters()}}
    for key, gradient in ours.items():
        wanted = answers[f"gradient.{name}.{key}"]
        torch.testing.assert_close(gradient.float(), wanted, rtol=1e-4, atol=1e-5, msg=key)


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_as_many_as_published(name):
    with torch.device("meta"):
        model = mala.create_model(name)
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS[name]


def test_mixers_share_weights():
    hybrid = mala.create_model("mavit_n", mixers="mala,linear,inline,softmax", num_classes=3)
    other = mala.create_model("mavit_n", mixers="mala_balanced", num_classes=3)
    other.load_state_dict(hybrid.state_dict())
    images = torch.randn(1, 3, 16, 24)
    assert (hybrid.eval()(images) - other.eval()(images)).abs().max() > 0


def test_copies_pickles_and_files_keep_the_model(tmp_path):
    model = mala.create_model("mavit_n").eval()
    images = torch.randn(1, 3, 16, 16)
    wanted = model(images)
    torch.save(model, tmp_path / "whole")
    torch.save(model.state_dict(), tmp_path / "weights")
    loaded = mala.create_model("mavit_n").eval()
    loaded.load_state_dict(torch.load(tmp_path / "weights", weights_only=True))
    whole = torch.load(tmp_path / "whole", weights_only=False)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), whole, loaded):
        assert torch.equal(other(images), wanted)


def test_heads_features_and_stages():
    model = mala.create_model("mavit_n").eval()
    images = torch.randn(2, 3, 32, 16)
    features = model.forward_features(images)
    assert features.shape == (2, 160, 2, 1)
    assert torch.equal(model.forward_head(features), model(images))
    assert model.forward_head(features, pre_logits=True).shape == (2, 512)
    last, maps = model.forward_intermediates(images)
    assert torch.equal(last, features) and torch.equal(maps[-1], features)
    assert [tuple(m.shape[1:]) for m in maps] == [(64, 16, 8), (96, 8, 4), (128, 4, 2), (160, 2, 1)]
    assert len(model.forward_intermediates(images, 2, intermediates_only=True)) == 2
    model.reset_classifier(5)
    assert model(images).shape == (2, 5) and model.get_classifier().out_channels == 5
    model.reset_classifier(0)
    assert torch.equal(model(images), model.forward_head(features, pre_logits=True))
    with pytest.raises(ValueError, match="stages .9.; there are 4"):
        model.forward_intermediates(images, [9])
    with pytest.raises(ValueError, match="needs .batch, 3, height, width."):
        model(images[0])


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_gradients_of_each_picture():
    model = mala.create_model("mavit_n").eval()
    weights, images = dict(model.named_parameters()), torch.randn(2, 3, 32, 32)

    def loss(weights, image):
        return torch.func.functional_call(model, weights, (image[None],)).square().sum()

    each = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, images)
    model(images).square().sum().backward()
    for name, weight in model.named_parameters():
        torch.testing.assert_close(each[name].sum(0), weight.grad, rtol=1e-3, atol=1e-4)


def test_drop_path_leaves_out_whole_branches():
    block = mala.nn.Block(8, 1, 16, drop_path=0.5).train()
    x = torch.randn(64, 8, 2, 2)
    with torch.no_grad():
        base = x + block.pos(x)
        unchanged = (block(x) - base).abs().amax((1, 2, 3)) < 1e-6
    assert 4 < unchanged.sum() < 32  # a quarter of 64 has neither branch
