;; evaluate: --steps 4
; training? is false in an evaluation; metrics are reduced over the batches
(defun where-am-i () (if training? 1 0))
(defrun r :seed 1 :steps 4 :loss (* (where-am-i) (param "w" [] :init (full shape 8))) :optimizer (sgd :lr 1))
(defeval e :run r :every 2 :batches 3
  :metrics (("w" (param "w" [] :init (full shape 8))) ("training" (where-am-i))
            ("kept" (mean (dropout (ones [100]))))
            ("draws" (mean (uniform [10] :salt :microbatch))) ("most" (mean (uniform [10] :salt :microbatch)) :reduce max)))
