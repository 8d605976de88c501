"""The page for an address that does not exist: a sentence, and links to similar addresses."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from gnomon.errors import ConfigError, GnomonError
from gnomon.reading.address import parse_address
from gnomon.viewer.pages import TEMPLATES
from gnomon.viewer.requests import NoRun, NotShown, address_page

__all__ = ["missing", "refusal_page"]


async def refusal_page(request: Request, error: Exception) -> Response:
    """A run that cannot be read, or an address without a rollout."""
    name = str(request.path_params.get("name", ""))
    if isinstance(error, GnomonError) and error.code in ("E004", "E409"):
        what, why, near = error.what, error.why, nearest(name, error.fix)
    elif isinstance(error, NotShown):
        what, why, near = str(error), "", error.near
    else:
        what, why, near = "The run cannot be read", str(error), {}
    own = {f"the run {name}": f"/run/{quote(name)}/-/"} if name and not isinstance(error, NoRun) else {}
    page = TEMPLATES.get_template("error.html")
    text = page.render(name="", what=what[:1].upper() + what[1:], why=why, near={**near, **own, "all runs": "/"})
    return HTMLResponse(text, 404)


def nearest(name: str, fix: str) -> dict[str, str]:
    """The page that the fix of an error names: `gnomon show RUN ADDRESS`."""
    try:
        address = parse_address(fix.rpartition(" ")[2])
    except ConfigError:
        return {}
    page = address_page(name, address)
    return {f"the nearest existing address, {' '.join(page.rsplit('/', 2)[1:])}": page}


async def missing(request: Request, error: Exception) -> Response:
    """An address that no page has."""
    return await refusal_page(request, NotShown(f"No page has the address {request.url.path}."))
