(defgenerator g :fields ((x [2] f32)) :trips 3
  :init (zeros [4])
  :trip (lambda (s) (reshape s [2 2]))
  :emit (lambda (s) [s]))
(defrun r :seed 1 :steps 1 :data g :batch 1 :optimizer (sgd :lr 0.1)
  :loss (+ (sum x) (sum (param "w" [2] :init (zeros shape)))))
