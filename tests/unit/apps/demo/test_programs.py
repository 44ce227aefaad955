"""The programs of the demo, as processes and clients of a real node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import skerry
from skerry.apps.demo.fleet import Alarm, BearingRequest, Radar, Vessel, Voyage
from skerry.apps.demo.processes import DemoProcess, DemoProcesses
from skerry.apps.demo.programs import PICTURE_BYTES, main
from skerry.errors import Refused

pytestmark = pytest.mark.slow


@pytest.fixture
def processes() -> Iterator[DemoProcesses]:
    with DemoProcesses() as found:
        yield found


def started(
    processes: DemoProcesses, node: Any, program: str, name: str, *arguments: str
) -> DemoProcess:
    given = ("--node", node.place, "--name", name, *arguments)
    found = processes.start(program, "-m", "skerry.apps.demo.programs", program, *given)
    found.wait_event("ready")
    return found


def test_fleet_reports_the_actual_positions(processes: DemoProcesses, live_node: Any) -> None:
    fleet = started(processes, live_node, "fleet", "north", "--count", "3")
    confirmed = fleet.wait_event("confirmed")["voyages"]
    fleet.send_order("freeze")
    frozen = fleet.wait_event("frozen")
    with skerry.connect(live_node.place) as space:
        places = {str(v.mmsi): [v.lat, v.lon] for v in space.container(Vessel).values()}
        assert places == frozen["places"]
        assert set(space.container(Voyage)) >= set(confirmed)
        radar = space.container(Radar)["north"]
        assert radar.picture is not None
        assert (radar.number, len(radar.picture)) == (frozen["number"], PICTURE_BYTES)
    assert fleet.wait_end() == 0
    assert fleet.events("ended")


def test_fleet_publishes_everything_again_after_a_reconnect(
    processes: DemoProcesses, live_node: Any
) -> None:
    fleet = started(processes, live_node, "fleet", "north", "--count", "3")
    live_node.stop()
    fleet.wait_event("state", lambda line: line["state"] == "disconnected")
    live_node.start()
    fleet.wait_event("state", lambda line: line["state"] == "connected")
    fleet.send_order("freeze")
    frozen = fleet.wait_event("frozen")
    with skerry.connect(live_node.place) as space:
        vessels = space.container(Vessel)
        assert {str(mmsi) for mmsi in vessels} == set(frozen["places"])
        assert all(vessel.name for vessel in vessels.values())
        assert space.container(Radar)["north"].number == frozen["number"]
    assert fleet.wait_end() == 0


def test_collision_alarm_publishes_alarms(processes: DemoProcesses, live_node: Any) -> None:
    with skerry.connect(live_node.place) as space:
        for mmsi in (1, 2):
            space.publish(Vessel(mmsi=mmsi, lat=57.0, lon=11.0, name="not asked for"))
        space.flush()
        alarm = started(processes, live_node, "alarm", "alarm")
        alarm.send_order("report")
        report = alarm.wait_event("report")
        assert report["places"] == {"1": [57.0, 11.0], "2": [57.0, 11.0]}
        assert report["raised_count"] == 1
        assert list(space.container(Alarm)) == [(1, 2)]
        assert alarm.wait_end() == 0


def test_pilots_answer_one_after_the_other(processes: DemoProcesses, live_node: Any) -> None:
    question = BearingRequest(lat=57.0, lon=11.0, to_lat=58.0, to_lon=11.0)
    with skerry.connect(live_node.place) as space:
        first = started(processes, live_node, "pilot", "Ada")
        second = started(processes, live_node, "pilot", "Bo")
        answer = space.request(question, to="pilot")
        assert (answer.pilot, answer.course, answer.miles) == ("Ada", 0.0, 60.0)
        assert first.wait_end() == 0
        second.wait_event("claim", lambda line: line["state"] == "held")
        assert space.request(question, to="pilot").pilot == "Bo"
        assert second.wait_end() == 0


def test_vessels_are_their_fleets_alone(processes: DemoProcesses, live_node: Any) -> None:
    started(processes, live_node, "fleet", "north", "--count", "3", "--first", "265000000")
    with skerry.connect(live_node.place) as space:
        space.publish(Vessel(mmsi=265_000_000, name="stolen"))
        with pytest.raises(Refused, match="owned"):
            space.flush()
        assert "stolen" not in {vessel.name for vessel in space.container(Vessel).values()}


def test_slow_one_skips_to_the_last_picture(processes: DemoProcesses, live_node: Any) -> None:
    with skerry.connect(live_node.place) as space:
        slow = started(processes, live_node, "display", "north")
        for number in range(1, 31):
            picture = number.to_bytes(4, "big")
            space.publish(Radar(site="north", number=number, picture=picture))
            space.publish(Radar(site="south", number=1, picture=b"1234"))
        space.flush()
        slow.send_order("report")
        report = slow.wait_event("report")
        assert report["number"] == 30
        assert report["seen_count"] < 30
        assert slow.wait_end() == 0


def test_unknown_program_is_rejected() -> None:
    with pytest.raises(SystemExit):
        main(["whale", "--node", "tcp://127.0.0.1:1", "--name", "w"])
