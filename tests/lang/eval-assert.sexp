(def heads 3)
(assert (= (mod 64 heads) 0))
(assert (= (mod 64 heads) 0) "heads: " heads " do not divide " 64)
