(include "../read-include-cycle.sexp")
