(defrun r :seed 1 :optimizer (sgd :lr 0.1) :loss (sum (param "w" [2] :init (zeros shape)))
  :stages ((stage "a" :steps 1) (stage "a" :steps 2)))
