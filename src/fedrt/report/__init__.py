"""Tables, figures and the HTML page, made from results."""

from fedrt.system.lazy import make_callable

make_callable(__name__)
