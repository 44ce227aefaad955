"""One program answers requests, and another one asks. Here both are in one file."""

from fleet import Route, RouteRequest

import skerry


def find(request: RouteRequest) -> Route:
    return Route(legs=["Marstrand", "the sound", request.goal or "anywhere"])


with skerry.connect(name="router") as router, skerry.connect(name="bridge") as bridge:
    router.serve(RouteRequest, find, name="router")
    answer = bridge.request(RouteRequest(goal="Skagen"), to="router", timeout=2.0)
    print(" - ".join(answer.legs))
