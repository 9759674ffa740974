(defrun r :seed 1 :steps 1 :optimizer (sgd :lr 0.1)
  :loss (* (cast (input :trip) f32) (sum (param "x" [2] :init (zeros shape)))))
