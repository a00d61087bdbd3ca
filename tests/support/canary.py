"""Code that nobody asked for: a test that finds it imported has found a hole."""


def Sings(*args, **options):  # noqa: N802
    """What an import path in a stranger's file would call."""
    raise AssertionError("the canary was called")
