(include "included/cycle.sexp")
