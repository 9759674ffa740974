;; evaluate: --steps 2
(defgenerator g :fields ((x [2] f32) (n [] i32)) :trips 3
  :init [(zeros [batch 2]) (zeros [] :dtype i32)]
  :trip (lambda (s) [(+ (first s) (cast (input :trip) f32) 1) (+ (nth s 1) 1)])
  :emit (lambda (s) [(first s) (full [batch] (nth s 1))]))
(defrun r :seed 1 :steps 2 :data g :batch 2 :microbatches 2 :optimizer (sgd :lr 1)
  :loss (* (param "w" [] :init (ones shape)) (mean x)) :metrics (("n" (mean (cast n f32)))))
