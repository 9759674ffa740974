(defrun tiny :seed 1 :steps 1 :optimizer (sgd :lr 0.1) :loss (sum (param "w" [2] :init (zeros shape))))
(defrun large :seed 1 :steps 1 :optimizer (sgd :lr 0.1) :loss (sum (param "w" [2] :init (zeros shape))))
