"""The control API: what a test in any language may do to a broker, over HTTP and JSON.

`operations` is the table of what there is, made from the public methods of `LocalBroker`, with its description in OpenAPI;
`values` has the JSON of each type, `server` serves it. A method that LocalBroker gains is an operation by that.
"""
