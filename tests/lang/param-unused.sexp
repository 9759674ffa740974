(defrun r :seed 1 :steps 1 :optimizer (sgd :lr 0.1)
  :loss (let ((unused (param "u" [2] :init (zeros shape)))
              (held (param "h" [2] :init (zeros shape) :trainable false)))
          (sum (param "w" [2] :init (zeros shape)))))
