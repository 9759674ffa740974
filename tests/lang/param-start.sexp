(defrun r :seed 1 :steps 1 :optimizer (sgd :lr 0.1)
  :loss (sum (param "w" [2 3] :init (zeros shape) :load (weights "a.safetensors"))))
