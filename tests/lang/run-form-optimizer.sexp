(defrun r :seed 1 :steps 1 :optimizer 0.1 :loss (sum (param "w" [2] :init (zeros shape))))
