"""What a visitor means by a text: the words that ``namespace/kind/name`` of each meant workload contains."""

from tables import cases

from console.search_terms import NamedThing, named_in


@cases(
    ("text", "meant", "query"),
    {
        "nothing": ("", NamedThing(), ""),
        "words": ("web shop", NamedThing(words=("web", "shop")), "web shop"),
        "namespace and name": ("shop/web-8", NamedThing("shop", words=("web-8",)), "shop/ /web-8"),
        "a short kind and a name": (
            "deploy/web-8",
            NamedThing(kind="Deployment", words=("web-8",)),
            "deployment/web-8",
        ),
        "a plural kind": ("statefulsets/db", NamedThing(kind="StatefulSet", words=("db",)), "statefulset/db"),
        "all three": ("shop/deploy/web", NamedThing("shop", "Deployment", ("web",)), "shop/ deployment/web"),
        "a kind that is not built in": ("shop/Rocket/x", NamedThing("shop", "Rocket", ("x",)), "shop/ rocket/x"),
        "an option before": ("-n shop web", NamedThing("shop", words=("web",), exact=True), "web"),
        "an option after": (
            "deploy/web -n shop",
            NamedThing("shop", "Deployment", ("web",), exact=True),
            "deployment/web",
        ),
        "an option with an equals sign": (
            "web --namespace=shop",
            NamedThing("shop", words=("web",), exact=True),
            "web",
        ),
        "an option alone": ("-n shop", NamedThing("shop", exact=True), ""),
        "an option without a value": ("web -n", NamedThing(words=("web", "-n")), "web -n"),
        "too many slashes": ("a/b/c/d", NamedThing(words=("a/b/c/d",)), "a/b/c/d"),
    },
)
def test_a_text_in_the_ways_that_people_write(text, meant, query):
    found = named_in(text)
    assert (found, found.query) == (meant, query)
