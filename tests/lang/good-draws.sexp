;; evaluate: --steps 3
; without a salt a draw is the same at every step; another salt, stream or place is another draw
(defun m (x) (mean x))
(defrun r :seed 1 :steps 3 :loss (m (uniform [4]))
  :metrics (("second" (m (uniform [4])))
            ("salted" (m (uniform [4] :salt :step)))
            ("again" (m (uniform [4] :salt (input :step) :stream "s")))
            ("stream" (m (uniform [4] :salt [(input :step)] :stream "s")))
            ("constant" (m (normal [4] :salt 3)))
            ("scaled" (m (normal [4] :mean 10 :std 0.1 :salt [:step :microbatch])))))
