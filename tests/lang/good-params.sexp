;; evaluate: --steps 1
; paths from scopes, tied weights, an initializer drawn for its path, parameters that are not trained
(defun layer (x) (+ (* x (param "w" [2] :init (ones shape))) (scope-bias)))
(defun scope-bias () (param "b" [2] :init (zeros shape)))
(defun block (x i) (scope i (scope "inner" (layer x))))
(defrun r :seed 1 :steps 1 :optimizer (lambda (p g) (begin (print (param-path) p g) (- p g)))
  :loss (let ((x (full [2] 3))
              (y (fold block x (range 2)))
              (tied (scope 0 (scope "inner" (param "w" [2] :init (ones shape)))))
              (held (param "held" [2] :init (full shape 2) :trainable false))
              (noise (scope "n" (param "a" [2] :init (normal shape :std 0.5))))
              (count (param "count" [] :dtype i32 :init (full shape 7 :dtype i32) :trainable false)))
          (begin (print (shape-of y) (dim y 0) (rank y) (dtype-of count) (scope "p" (scope-path)))
                 (+ (sum (* y tied held)) (sum noise) (cast count f32)))))
