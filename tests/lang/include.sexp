(include "included/layers.sexp")
(include "included/../included/layers.sexp")
(print (twice 4) from-deeper)
(defrun r :seed 1 :steps 1 :optimizer (sgd :lr 0.1) :loss (sum (param "w" [2] :init (zeros shape))))
