graph [
  node [ id 0 label "0" city "a" name "New York" ]
  node [ id 1 label "1" name "Seattle" ]
  node [ id 2 label "2" name "Denver" ]
  edge [ source 0 target 1 ]
  edge [ source 1 target 2 ]
  edge [ source 0 target 2 ]
]
