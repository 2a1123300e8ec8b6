"""Every view in a window as narrow as a phone, in light and dark mode: nothing is cut off or hard to read."""

import pytest
from playwright.sync_api import expect

# Elements wider than their box, except those that scroll on purpose: code, and tables that a model
# wrote or that have a column for each rollout.
FIND_WHAT_IS_TOO_WIDE = """() => {
  const found = [];
  if (document.documentElement.scrollWidth > innerWidth) found.push("the page");
  for (const element of document.querySelectorAll("main *, header *")) {
    if (!element.checkVisibility() || element.closest(".unseen, thead, pre, .matrix, .scroller")) continue;
    const scrolls = ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
    const holdsMatrix = element.querySelector(".matrix") !== null;
    if (scrolls && !holdsMatrix && element.scrollWidth > element.clientWidth + 1)
      found.push(`${element.tagName}.${element.className}`);
  }
  return found;
}"""

# Text whose contrast with its background is below 4.5 to 1, or below 3 to 1 if it is large.
FIND_WHAT_IS_FAINT = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const read = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    return { channels: [red, green, blue], alpha: alpha / 255 };
  };
  const mix = ({ channels, alpha }, behind) => channels.map((value, index) => value * alpha + behind[index] * (1 - alpha));
  const linear = (value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const brightness = ([red, green, blue]) => 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!hasText || !element.checkVisibility() || element.closest(".unseen, .skip, .off")) continue;
    const around = [];
    for (let outer = element; outer; outer = outer.parentElement) around.unshift(outer);
    let behind = [255, 255, 255];
    for (const outer of around) behind = mix(read(getComputedStyle(outer).backgroundColor), behind);
    const style = getComputedStyle(element);
    const [one, other] = [brightness(mix(read(style.color), behind)), brightness(behind)];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const isLarge = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    if (contrast < (isLarge ? 3 : 4.5)) found.push(`${contrast.toFixed(2)} ${element.className}: ${element.textContent.slice(0, 30)}`);
  }
  return found;
}"""


@pytest.fixture(params=["light", "dark"])
def context_options(request):
    return {"viewport": {"width": 390, "height": 844}, "color_scheme": request.param}


def list_views(page, site):
    runs = page.request.get(f"{site}api/runs").json()
    run = f"{site}#/run/{runs[0]['id']}"
    row = page.request.get(f"{site}api/runs/{runs[0]['id']}/rows/8").json()
    views = [
        site,
        run,
        f"{run}/rows",
        f"{run}/rows?q=nonsense:x",
        f"{run}/row/8",
        f"{run}/group/{row['example']}",
    ]
    if len(runs) > 1:
        views.append(f"{site}#/compare/{runs[0]['id']}/{runs[1]['id']}")
    return views


def check_view(page, address):
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("main[aria-busy=false]")
    assert page.evaluate(FIND_WHAT_IS_TOO_WIDE) == [], address
    assert page.evaluate(FIND_WHAT_IS_FAINT) == [], address


def test_every_view_of_a_run_fits_a_phone(page, site):
    for address in list_views(page, site):
        check_view(page, address)


def test_every_view_of_two_runs_fits_a_phone(page, two_runs):
    for address in list_views(page, two_runs):
        check_view(page, address)


def test_the_label_form_fits_a_phone(page, site):
    runs = page.request.get(f"{site}api/runs").json()
    page.goto(f"{site}#/run/{runs[0]['id']}/row/8")
    page.get_by_role("button", name="overrule").first.click()
    expect(page.get_by_role("button", name="Save label")).to_be_visible()
    assert page.evaluate(FIND_WHAT_IS_TOO_WIDE) == []
    assert page.evaluate(FIND_WHAT_IS_FAINT) == []


def test_the_list_of_runs_labels_its_figures(page, two_runs):
    """Without a table header, each figure has the name of its column."""
    page.goto(two_runs)
    rows = page.locator("table.stacks tbody tr")
    expect(rows).to_have_count(2)
    labels = rows.first.locator("td").evaluate_all("cells => cells.map(cell => cell.dataset.label)")
    assert labels == [
        "rows",
        "mean",
        "95 %",
        "errors",
        "cost",
        "model",
        "judge",
        "rubric",
        "created",
    ]
