(defrun r :seed 1 :steps 1 :loss (sum (cast (param "w" [2 3] :init (zeros shape :dtype i32) :dtype i32) f32))
  :optimizer (sgd :lr 0.1))
