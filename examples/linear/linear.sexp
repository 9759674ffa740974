;; A linear regression on made-up data that ends at the known answer: w = 3 -2 0.5, b = 0.25.
;; Each step draws its own 64 records from the counter generator; no file is read.

(defknob lr 0.1 :doc "learning rate" :min 0.0)

(def truth [3 -2 0.5])

(defun targets (x)
  "The answer of the model we look for, without noise."
  (+ 0.25 (fold (lambda (sum i) (+ sum (* (nth truth i) (slice x 1 i (+ i 1))))) 0 (range 3))))

(defun predict (x)
  (+ (matmul x (param "w" [3 1] :init (normal shape :std 0.1))) (param "b" [1] :init (zeros shape))))

(defrun linear
  :seed 1 :steps 300
  :loss (let ((x (normal [64 3] :salt :step))
              (d (- (predict x) (targets x))))
          (mean (* d d)))
  :optimizer (sgd :lr lr))
