"""What a monitor sees, in the trackers' own files."""

import pytest

from assay.integrations import RewardMonitor, to_tracker

pytestmark = pytest.mark.filterwarnings("default")  # trackers warn of much that is not ours


@pytest.fixture
def signs():
    """A function that lets a monitor see two steps through a sink; what it saw of the second."""

    def watch(sink):
        monitor = RewardMonitor(sinks=[sink], warn=lambda line: None)
        return [monitor.observe(["a", "b", "c"], [1.0, 0.0, None]) for _ in range(2)][1]

    return watch


def test_tensorboard_has_a_curve_of_every_sign(tmp_path, signs):
    pytest.importorskip("tensorboard")
    pytest.importorskip("torch")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        seen = signs(to_tracker(writer))
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {f"assay/{name}" for name in seen}
    points = [(event.step, event.value) for event in events.Scalars("assay/unscored")]
    assert points == [(1, pytest.approx(1 / 3)), (2, pytest.approx(1 / 3))]


def test_wandb_takes_them_offline(tmp_path, signs):
    """The summary of a run holds what was logged last."""
    wandb = pytest.importorskip("wandb")
    run = wandb.init(mode="offline", dir=str(tmp_path), project="assay")
    seen = signs(to_tracker(run))
    summary = dict(run.summary)
    run.finish()
    assert summary["assay/step"] == 2
    assert summary["assay/unscored"] == pytest.approx(seen["unscored"])


def test_mlflow_keeps_the_history(tmp_path, signs):
    mlflow = pytest.importorskip("mlflow", exc_type=ImportError)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    with mlflow.start_run() as run:
        seen = signs(to_tracker(mlflow))
    history = mlflow.tracking.MlflowClient().get_metric_history(run.info.run_id, "assay/unscored")
    assert [(point.step, point.value) for point in history] == [
        (1, seen["unscored"]),
        (2, seen["unscored"]),
    ]
