(defrun r :seed 1 :steps 1 :optimizer (sgd :lr 0.1)
  :loss (sum (param "w" [2] :init (zeros shape))))
(defeval e :run r :metrics (("v" (sum (param "v" [2] :init (zeros shape))))))
