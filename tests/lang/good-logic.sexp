(print (and true true) (and false (error "never")) (or true (error "never")) (or false false) (not false))
(print (if (< 1 2) "then" (error "never")) (cond ((= 1 2) 1) ((= 1 1) 2 3) (else (error "never"))))
(print (let () 5) (begin 1 2 3) (quote (a [b] "c" 1)) '(a 'b))
(defrun r :seed 1 :steps 1
  :loss (let ((x (zeros [3])) (p (> x 0)))
          (begin (print (and p true) (and true p) (or p (not p)) (and p (< x 1) (> x -1)))
                 (print (and false p) (or true p) (or false p))
                 (sum (cast p f32)))))
