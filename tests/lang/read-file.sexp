(include "included/nothing.sexp")
