(print (if 1 2 3))
(print (cond ("yes" 1) (else 2)))
(print (filter (lambda (x) x) [1 2]))
