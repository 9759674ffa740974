;; evaluate: --steps 5
(defrun r :seed 1 :loss (param "w" [] :init (ones shape)) :optimizer (sgd :lr 1)
  :metrics (("stage" (cast (input :stage) f32)) ("records" (cast (input :records) f32))
            ("stage-records" (cast (input :stage-records) f32)) ("step" (cast (input :step) f32)))
  :stages ((stage "one" :steps 2 :batch 3 :microbatches 2) (stage "two" :steps 3 :batch 5)))
