package baton

// Routes are the routes that s has mounted.
func (s *Server) Routes() []string { return s.web.Routes() }
